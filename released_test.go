package tidings_test

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const releaseVersion = "v1.2.3"

// fakeRelease is a repository with two modules, and the module proxy of its tags. The test may spoil both.
type fakeRelease struct {
	*testing.T
	clone, proxy string
}

// releasedFiles are the files of each module.
var releasedFiles = map[string]map[string]string{
	".": {"go.mod": "module github.com/tidings/tidings\n\ngo 1.26\n", "a.go": "package tidings\n", "LICENSE": "free\n"},
	"tool": {
		"go.mod":    "module github.com/tidings/tidings/tool\n\ngo 1.26\n\nrequire github.com/tidings/tidings v1.2.3\n",
		"main.go":   "package main\n",
		"sub/s.txt": "text\n",
		"LICENSE":   "free\n",
	},
}

func newFakeRelease(t *testing.T) *fakeRelease {
	r := &fakeRelease{t, t.TempDir(), t.TempDir()}
	for folder, files := range releasedFiles {
		for name, text := range files {
			r.write(filepath.Join(r.clone, folder, name), text)
		}
		r.publish(folder, files)
	}
	r.git("init", "--quiet")
	r.git("add", "--all")
	r.git("-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "--quiet", "--message", "release")
	r.git("tag", releaseVersion)
	r.git("tag", "tool/"+releaseVersion)
	return r
}

func (r *fakeRelease) write(path, text string) {
	r.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
}

func (r *fakeRelease) git(args ...string) {
	r.Helper()
	cmd := exec.Command("git", append([]string{"-C", r.clone}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		r.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// name returns the path of a folder's module, and at where the proxy has its version.
func (r *fakeRelease) name(folder string) string {
	return strings.TrimSuffix("github.com/tidings/tidings/"+folder, "/.")
}

func (r *fakeRelease) at(folder, part string) string {
	return filepath.Join(r.proxy, r.name(folder), "@v", releaseVersion+"."+part)
}

// publish puts a module into the proxy.
func (r *fakeRelease) publish(folder string, files map[string]string) {
	r.Helper()
	r.write(r.at(folder, "info"), `{"Version":"v1.2.3"}`)
	r.write(r.at(folder, "mod"), files["go.mod"])
	var packed strings.Builder
	w := zip.NewWriter(&packed)
	for name, text := range files {
		f, err := w.Create(r.name(folder) + "@" + releaseVersion + "/" + name)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			r.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		r.Fatal(err)
	}
	r.write(r.at(folder, "zip"), packed.String())
}

// published returns a copy of a module's files, with changes; an empty text removes a file.
func published(folder string, changes ...string) map[string]string {
	files := map[string]string{}
	for name, text := range releasedFiles[folder] {
		files[name] = text
	}
	for i := 0; i < len(changes); i += 2 {
		files[changes[i]] = changes[i+1]
		if changes[i+1] == "" {
			delete(files, changes[i])
		}
	}
	return files
}

// TestReleased: the check of a release passes a whole one, and names what is wrong with any other.
func TestReleased(t *testing.T) {
	for _, program := range []string{"git", "bash", "unzip"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	const requires = "module github.com/tidings/tidings/tool\n\ngo 1.26\n\nrequire (\n\tgithub.com/tidings/tidings "
	for name, c := range map[string]struct {
		spoil func(r *fakeRelease)
		want  string // in the output; empty if nothing is wrong
	}{
		"whole": {func(*fakeRelease) {}, ""},
		"no tag": {func(r *fakeRelease) { r.git("tag", "--delete", "tool/"+releaseVersion) },
			"there is no tag tool/v1.2.3"},
		"no module": {func(r *fakeRelease) { _ = os.Remove(r.at("tool", "zip")) }, "the proxy has no v1.2.3.zip"},
		"a file lacks": {func(r *fakeRelease) { r.publish("tool", published("tool", "sub/s.txt", "")) },
			"tidings/tool: the zip lacks sub/s.txt"},
		"a file of the root lacks": {func(r *fakeRelease) { r.publish(".", published(".", "a.go", "")) },
			"tidings: the zip lacks a.go"},
		"a file more": {func(r *fakeRelease) { r.publish(".", published(".", "secret.txt", "x")) },
			"the zip has secret.txt"},
		"a replace": {func(r *fakeRelease) {
			replaced := releasedFiles["tool"]["go.mod"] + "\nreplace github.com/tidings/tidings => ../\n"
			r.publish("tool", published("tool", "go.mod", replaced))
		}, "go.mod replaces a module of this repository"},
		"another version": {func(r *fakeRelease) {
			r.publish("tool", published("tool", "go.mod", requires+"v1.2.2\n)\n"))
		}, "go.mod requires github.com/tidings/tidings v1.2.2"},
		"the same version in a block": {func(r *fakeRelease) {
			r.publish("tool", published("tool", "go.mod", requires+"v1.2.3 // indirect\n)\n"))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeRelease(t)
			c.spoil(r)
			out, err := exec.Command(".ci/released", r.clone, r.proxy, releaseVersion, ".", "tool").CombinedOutput()
			if (err == nil) != (c.want == "") || !strings.Contains(string(out), c.want) {
				t.Errorf("%v, want %q:\n%s", err, c.want, out)
			}
		})
	}
}
