package main

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	positive = `package p

var zero = 0

func Positive(n int) bool {
	n -= zero
	return n > zero
}
`
	weakTest   = "package p\n\nimport \"testing\"\n\nfunc TestPositive(t *testing.T) {\n\tif !Positive(3) || Positive(-2) {\n\t\tt.Fail()\n\t}\n}\n"
	strongTest = "package p\n\nimport \"testing\"\n\nfunc TestPositive(t *testing.T) {\n\tif Positive(0) || !Positive(1) {\n\t\tt.Fail()\n\t}\n}\n"
	badTest    = "package p\n\nimport \"testing\"\n\nfunc TestPositive(t *testing.T) { t.Fail() }\n"
)

// TestTrial tries the mutants of a package whose test detects some of them.
func TestTrial(t *testing.T) {
	writeModule(t, map[string]string{"go.mod": "module p\n\ngo 1.26\n", "p.go": positive, "p_test.go": weakTest})
	all, name, err := find(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	try := func() (*result, error) {
		trial := trial{options: options{pkg: ".", tests: ".", timeout: time.Minute, workers: 1}, dir: t.TempDir(), name: name,
			equivalent: map[string]bool{"p/p.go: n -= zero =>": true}}
		return trial.run(t.Context(), all)
	}
	after := func(r *result) (lines []string) {
		for i := range r.alive {
			_, line, _ := strings.Cut(r.alive[i].String(), " => ")
			lines = append(lines, line)
		}
		return lines
	}
	r, err := try()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(after(r), "; "); got != "var zero = 1; return n >= zero" || r.found != 0 || r.equivalent != 1 {
		t.Errorf("found %d, equivalent %d, alive %q", r.found, r.equivalent, got)
	}
	write := func(text string) {
		if err := os.WriteFile("p_test.go", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(strongTest)
	if r, err = try(); err != nil || r.found != 2 || r.rate() != 1 {
		t.Errorf("with a better test: %+v, %v", r, err)
	}
	write(badTest)
	if _, err := try(); !errors.Is(err, errTests) {
		t.Errorf("a test that fails anyway finds everything: %v", err)
	}
}

// TestFilters breaks only what a pattern selects, and runs only the tests that another one selects.
func TestFilters(t *testing.T) {
	writeModule(t, map[string]string{
		"go.mod": "module p\n\ngo 1.26\n", "p.go": positive, "p_test.go": strongTest,
		"other.go": "package p\n\nfunc Other(n int) bool { return n > 1 }\n",
	})
	all, name, err := find(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]int{"": 5, `other\.go`: 2, `p/p\.go: func Positive$`: 2} {
		some, err := within(slices.Clone(all), pattern)
		if err != nil || len(some) != want {
			t.Errorf("%q matches %d of %d places, want %d; %v", pattern, len(some), len(all), want, err)
		}
	}
	for _, pattern := range []string{"none", "("} {
		if _, err := within(slices.Clone(all), pattern); err == nil || !strings.Contains(err.Error(), "-files") {
			t.Errorf("%q: %v", pattern, err)
		}
	}
	some, err := within(all, "Positive")
	if err != nil {
		t.Fatal(err)
	}
	for named, want := range map[string]string{"Positive$": "", "None": "no test", "(": "-run"} {
		trial := trial{options: options{pkg: ".", tests: ".", named: named, timeout: time.Minute, workers: 1},
			dir: t.TempDir(), name: name}
		r, err := trial.run(t.Context(), some)
		if want == "" && (err != nil || r.found != 1) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("tests named %q: %+v, %v", named, r, err)
		}
	}
}
