package suites

import (
	"fmt"
	"regexp"
	"testing"
	"time"
)

// TestRun: tests that fail, panic and hang do not take others with them, not even other subtests.
func TestRun(t *testing.T) {
	module := t.TempDir()
	writeFiles(t, module, map[string]string{
		"go.mod": "module example.test\n\ngo 1.26\n",
		"a/a_test.go": `package a

import "testing"

func TestFails(t *testing.T) {
	t.Run("one", func(t *testing.T) { t.Error("no") })
	t.Run("two", func(t *testing.T) {})
}

func TestHangs(t *testing.T) {
	t.Run("one (x)", func(t *testing.T) { select {} })
	t.Run("two", func(t *testing.T) { t.Error("no") })
	t.Run("three", func(t *testing.T) {})
}

func TestPanics(t *testing.T) { panic("oh") }

func TestPasses(t *testing.T) {}

func TestSkips(t *testing.T) { t.Skip() }

func TestUnselected(t *testing.T) { t.Error("it runs") }
`,
	})
	o := Options{Limit: time.Second, Parallel: 2, Run: regexp.MustCompile("[^d]$")}
	got, err := o.run(t.Context(), "s", testPackage{name: "a", path: "./a", module: module, folder: module, omitted: 7})
	if err != nil {
		t.Fatal(err)
	}
	const want = "{s a 1 1 7 [{TestFails/one } {TestHangs/one_(x) panic: test timed out after 1s} {TestHangs/two } {TestPanics panic: oh [recovered, repanicked]}]" +
		" [TestFails TestHangs TestPanics TestPasses TestSkips]}"
	if s := fmt.Sprint(got); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

func TestRunWithoutBuilding(t *testing.T) {
	module := t.TempDir()
	writeFiles(t, module, map[string]string{"go.mod": "module example.test\n\ngo 1.26\n", "a/a_test.go": "package a\n\nfunc oh"})
	var o Options
	got, err := o.run(t.Context(), "s", testPackage{name: "a", path: "./a", module: module, folder: module})
	if err != nil || len(got.Failures) != 1 || got.Failures[0].Test != buildTest {
		t.Errorf("got %+v, %v", got, err)
	}
}
