package tidings_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestModules: the scripts know every module of the repository, and one that is released requires no other of its
// modules than released ones. What a release is made of, .ci/release itself checks.
func TestModules(t *testing.T) {
	out, err := exec.Command("bash", "-c", `. .ci/modules.sh && echo "${modules[*]}" && echo "${released[*]}"`).Output()
	if err != nil {
		t.Fatal(err)
	}
	first, second, _ := strings.Cut(string(out), "\n")
	known, released := strings.Fields(first), strings.Fields(second)
	listed, err := exec.Command("git", "ls-files", "go.mod", "**/go.mod").Output()
	if err != nil {
		t.Skip("not in a checkout: ", err)
	}
	for file := range strings.FieldsSeq(string(listed)) {
		folder := filepath.Dir(file)
		if folder == ".ci/tools" || strings.Contains(folder, "testdata") {
			continue
		}
		if !slices.Contains(known, folder) {
			t.Errorf("%s is not in .ci/modules.sh", folder)
		}
		if slices.Contains(released, folder) {
			checkReleased(t, file, released)
		}
	}
}

// checkReleased checks what a module that is released requires.
func checkReleased(t *testing.T, file string, released []string) {
	const root = "github.com/tidings/tidings"
	for path := range requirementsOf(t, file) {
		if folder, ours := strings.CutPrefix(path, root+"/"); ours && !slices.Contains(released, folder) {
			t.Errorf("%s requires %s, which is not released", file, path)
		}
	}
}
