package programs

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/tidingstest"
	"github.com/tidings/tidings/upstream/internal/workspace"
)

func TestNamed(t *testing.T) {
	if all, err := Named(nil); err != nil || len(all) != len(All) {
		t.Errorf("without names there are %d programs, %v", len(all), err)
	}
	if one, err := Named([]string{"coredns"}); err != nil || len(one) != 1 || one[0].Name != "coredns" {
		t.Errorf("got %v, %v", one, err)
	}
	_, err := Named([]string{"coredns", "core"})
	if err == nil || !strings.Contains(err.Error(), `"core"`) || !strings.Contains(err.Error(), "kube-state-metrics") {
		t.Errorf("got %v, want the name and those that there are", err)
	}
}

func TestDifference(t *testing.T) {
	want := []string{"a", "b", "c"}
	if d := difference(want, []Result{{State: want}, {State: []string{"a", "b", "c"}}}); d != "" {
		t.Errorf("equal results differ: %s", d)
	}
	d := difference(want, []Result{{State: want}, {State: []string{"a", "c", "d"}}})
	if !strings.Contains(d, "- b\n") || !strings.Contains(d, "+ d\n") || strings.Contains(d, "a\n") {
		t.Errorf("got %s", d)
	}
	if d := difference(want, []Result{{State: []string{"a", "b", "b", "c"}}}); d == "" {
		t.Error("a line more is no difference")
	}
}

// Every figure that was measured is in the page, better or worse.
func TestPage(t *testing.T) {
	run := func(heap uint64, lists int) Result {
		requests := map[tidingstest.RequestKind]int{tidingstest.List: lists}
		return Result{Ended: Usage{Heap: heap}, State: []string{"x"}, Requests: requests}
	}
	report := Report{Program: sampleController, Runs: map[Engine][]Result{
		ClientGo: {run(3e6, 4), run(2e6, 4), run(9e6, 4)}, Tidings: {run(6e6, 8), run(1e6, 8), run(7e6, 8)},
	}}
	page := Page([]Report{report}, Options{Rounds: 3}, time.Unix(0, 0))
	for _, want := range []string{
		"| at the end: live heap | 3.0 MB | 6.0 MB | 2.00× |", "| requests: list | 4 | 8 | 2.00× |", "Apache-2.0",
		sampleController.Version, "The results are equal: 1 lines.",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s:\n%s", want, page)
		}
	}
	report.Difference = "- y\n"
	page = Page([]Report{report}, Options{Rounds: 3}, time.Unix(0, 0))
	if !strings.Contains(page, "The results differ") || !strings.Contains(page, "- y") {
		t.Errorf("the page hides a difference:\n%s", page)
	}
}

const holding20MB = `package main

var data = make([]byte, 20<<20)

func main() {
	for i := range data {
		data[i] = 1
	}
	select {}
}
`

// A program with the added file reports what it uses, as often as it is asked, and ends when it is told to.
func TestReporter(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	w := &workspace.Workspace{Folder: t.TempDir()}
	for name, text := range map[string]string{
		"go.mod": "module program\n", "usage_report.go": reporter,
		"main.go": holding20MB,
	} {
		if err := w.Write(text, name); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "build", "-C", w.Folder, "-o", "program", ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p, err := startProcess(w.Path("program"), filepath.Join(w.Folder, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	for range 2 {
		used, err := p.usage()
		if err != nil {
			t.Fatal(err)
		}
		if used.Heap < 20<<20 || used.Heap > 60<<20 || used.PeakRSS == 0 || used.CPU <= 0 || used.Goroutines < 2 {
			t.Errorf("a program that holds 20 MB has used %+v", used)
		}
	}
}
