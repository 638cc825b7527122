package stories

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestRollout records a rollout anew, and lets the command line tell it: the committed recording is no accident.
func TestRollout(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane, which -short does without")
	}
	folder := t.TempDir()
	if err := Record(t.Context(), folder, []string{"rollout"}, io.Discard); err != nil {
		t.Fatal(err)
	}
	story := tell(t, filepath.Join(folder, "rollout.tidings.gz"))
	for _, want := range []string{
		`deploy/web +image nginx:1\.27 → 1\.28  by kubectl-set\n`, `rs/web-\S+ +new: revision 2, 1 replica\n`,
		`(.*pod/web-\S+ +on node-\d → running \+\S+ → ready \+\S+\n(.*\n)*){3}`,
		`(.*rs/web-\S+ +\d → \d: web-\S+ gone \+\S+\n(.*\n)*){3}`, `deploy/web +rolled out in \S+s: 3 of 3 ready\n`,
	} {
		if !regexp.MustCompile(want).MatchString(story) {
			t.Errorf("the story does not say %q:\n%s", want, story)
		}
	}
}

// tell returns the story of a recording.
func tell(t *testing.T, packed string) string {
	t.Helper()
	in, err := os.Open(packed)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	content, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(t.TempDir(), "plain.tidings")
	out, err := os.Create(plain)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, content); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), "go", "run", ".", "replay", plain, "--speed", "max")
	run.Dir = filepath.Join("..", "..", "..", "cmd", "tidings")
	story, err := run.Output()
	if err != nil {
		t.Fatal(fmt.Errorf("%w: %s", err, story))
	}
	return string(story)
}
