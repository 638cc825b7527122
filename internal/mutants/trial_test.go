package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTrial tries the mutants of a package whose test notices some of them.
func TestTrial(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module p\n\ngo 1.26\n",
		"p.go":      "package p\n\nfunc Positive(n int) bool { return n > 0 }\n",
		"p_test.go": "package p\n\nimport \"testing\"\n\nfunc TestPositive(t *testing.T) {\n\tif !Positive(2) || Positive(-2) {\n\t\tt.Fail()\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	all, err := find(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	trial := trial{options: options{tests: ".", timeout: time.Minute, workers: 1}, equivalent: map[string]bool{}}
	if err := trial.checkTests(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := trial.run(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	var alive []string
	for i := range r.alive {
		_, after, _ := strings.Cut(r.alive[i].String(), " => ")
		alive = append(alive, after)
	}
	if len(alive) != 2 || r.found != 0 || r.rate() != 0 {
		t.Errorf("found %d, alive %q", r.found, alive)
	}
	trial.equivalent[r.alive[0].String()] = true
	if err := os.WriteFile("p_test.go", []byte("package p\n\nimport \"testing\"\n\nfunc TestPositive(t *testing.T) {\n\tif Positive(0) || !Positive(1) {\n\t\tt.Fail()\n\t}\n}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err = trial.run(t.Context(), all); err != nil || r.found != 1 || r.equivalent != 1 || r.rate() != 1 {
		t.Errorf("with a better test: %+v, %v", r, err)
	}
	if err := os.WriteFile("p_test.go", []byte("package p\n\nimport \"testing\"\n\nfunc TestPositive(t *testing.T) { t.Fail() }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := trial.checkTests(t.Context()); err == nil {
		t.Error("tests that fail anyway find everything")
	}
}
