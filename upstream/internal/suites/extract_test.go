package suites

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTakeTests: what is taken from a package builds and passes outside of it, and is all that can.
func TestTakeTests(t *testing.T) {
	module := t.TempDir()
	writeFiles(t, module, map[string]string{
		"go.mod": "module example.test\n\ngo 1.26\n",
		"box/box.go": `package box

type Box[T any] struct{ Content T; secret int }

func (b *Box[T]) Open() T { return b.Content }

func (b *Box[T]) pick() int { return b.secret }

func New[T any](content T) *Box[T] { return &Box[T]{Content: content} }

const size = 3

type Lid interface{ Lift() }

func Lift(l Lid) { l.Lift() }

type Bag struct{}

func (Bag) Open() bool { return true }

func NewBag() *Bag { return &Bag{} }
`,
		"box/box_test.go": `package box

import (
	"strings"
	"testing"
	"fmt"
)

var shared, other = 1, size

type lid struct{ up bool }

func (l *lid) Lift() { l.up = l.helper() }

func (l *lid) helper() bool { return true }

type innerLid struct{}

func (innerLid) Lift() { _ = size }

func check(t *testing.T, got string) {
	if !strings.HasPrefix(got, "a") {
		t.Error(got)
	}
}

func TestMain(m *testing.M) { m.Run() }

func TestOpen(t *testing.T) { check(t, New("abc").Open()) }

func TestLid(t *testing.T) {
	var l Lid = &lid{}
	if l.Lift(); !l.(*lid).up {
		t.Error("it is down")
	}
}

func TestSecret(t *testing.T) { _ = New(1).secret }

func TestPick(t *testing.T) { _ = New(1).pick() }

func TestSize(t *testing.T) { fmt.Sprint(shared) }

func TestInnerLid(t *testing.T) { innerLid{}.Lift() }

func (*Bag) Lift() {}

func TestBagLift(t *testing.T) { NewBag().Lift() }

func TestBagAsLid(t *testing.T) { Lift(NewBag()) }

func TestBagOpen(t *testing.T) { NewBag().Open() }

func Testing(t *testing.T) {}
`,
	})
	tests, err := loadTests(t.Context(), module, "box", true)
	if err != nil {
		t.Fatal(err)
	}
	chosen := tests.choose()
	slices.Sort(chosen.tests)
	if want := []string{"TestBagOpen", "TestLid", "TestOpen"}; !slices.Equal(chosen.tests, want) || chosen.omitted != 6 {
		t.Errorf("got %q and %d others, want %q and 6", chosen.tests, chosen.omitted, want)
	}
	if err := chosen.write(filepath.Join(module, "taken")); err != nil {
		t.Fatal(err)
	}
	runTaken(t, module, 3)
}

// TestTakeTestsLacking: names that the replacing package lacks are those of the package that it replaces.
func TestTakeTestsLacking(t *testing.T) {
	module := t.TempDir()
	writeFiles(t, module, map[string]string{
		"go.mod":     "module example.test\n\ngo 1.26\n",
		"box/box.go": "package box\n\ntype Box[T any] struct{ Content T }\n\nfunc New() Box[int] { return Box[int]{} }\n\nfunc Seal(Box[int]) {}\n",
		"box/box_test.go": `package box

import "testing"

func TestBoth(t *testing.T) { Seal(New()) }
`,
		"box/lacking_test.go": `package box

import "testing"

func TestLacking(t *testing.T) { Seal(Box[int]{}) }
`,
		"ours/box.go": "package box\n\nimport \"example.test/box\"\n\nfunc New() box.Box[int] { return box.New() }\n",
	})
	tests, err := loadTests(t.Context(), module, "box", false)
	if err != nil {
		t.Fatal(err)
	}
	if tests.replacing, err = declaredIn(filepath.Join(module, "ours")); err != nil {
		t.Fatal(err)
	}
	chosen := tests.choose()
	taken := filepath.Join(module, "taken")
	if err := chosen.write(taken); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"box_test.go", "lacking_test.go"} {
		replaceIn(t, filepath.Join(taken, file), `. "example.test/box"`, `. "example.test/ours"`)
	}
	runTaken(t, module, 2)
}

func replaceIn(t *testing.T, path, old, replacement string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte(old), []byte(replacement)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// runTaken runs the tests that were taken from a package, all of which have to pass.
func runTaken(t *testing.T, module string, tests int) {
	t.Helper()
	cmd := exec.Command("go", "test", "-v", "./taken")
	cmd.Dir = module
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS") != tests {
		t.Errorf("%v\n%s", err, out)
	}
}

func writeFiles(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
