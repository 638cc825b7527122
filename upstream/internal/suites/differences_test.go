package suites

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDifferencesAreDocumented: the page of each difference says what the list says that it does.
func TestDifferencesAreDocumented(t *testing.T) {
	pages := map[string]string{}
	seen := map[Difference]bool{}
	for _, d := range Differences {
		if _, ok := pages[d.Page]; !ok {
			text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", d.Page))
			if err != nil {
				t.Fatal(err)
			}
			pages[d.Page] = oneLine(string(text))
		}
		if d.Says == "" || !strings.Contains(pages[d.Page], oneLine(d.Says)) {
			t.Errorf("%s: %s does not say %q", d.Test, d.Page, d.Says)
		}
		if d.Because == "" {
			t.Errorf("%s: it does not say why", d.Test)
		}
		if !slices.ContainsFunc(All, func(s Suite) bool { return s.Name == d.Suite }) {
			t.Errorf("%s: there is no suite %q", d.Test, d.Suite)
		}
		key := Difference{Suite: d.Suite, Package: d.Package, Test: d.Test}
		if seen[key] {
			t.Errorf("%s is listed twice", d.Test)
		}
		seen[key] = true
	}
}

func TestJudge(t *testing.T) {
	differences := []Difference{
		{Suite: "s", Package: "p", Test: "TestWhole"}, {Suite: "s", Package: "p", Test: "TestPart/one"}, {Suite: "s", Package: "p", Test: "TestPasses"},
		{Suite: "s", Package: "p", Test: "TestHalf/one"}, {Suite: "s", Package: "p", Test: "TestDidNotRun"}, {Suite: "s", Package: "q", Test: "TestOther"},
	}
	report := Report{
		Suite: "s", Package: "p", Ran: []string{"TestWhole", "TestPart", "TestPasses", "TestHalf", "TestOther"},
		Failures: []Failure{
			{Test: "TestWhole/a"}, {Test: "TestPart/one/deeper"}, {Test: "TestPart/two"}, {Test: "TestHalf/two"}, {Test: "TestOther", Why: "panic: oh"},
		},
	}
	got := Judge([]Report{report}, differences)
	if want := []string{"TestWhole/a", "TestPart/one/deeper"}; !slices.Equal(got.Documented["s p"], want) {
		t.Errorf("documented: got %q, want %q", got.Documented, want)
	}
	want := []string{
		"s p: TestPart/two failed", "s p: TestHalf/two failed", "s p: TestOther failed (panic: oh)",
		"s p: TestPasses is listed as a difference, but passes", "s p: TestHalf/one is listed as a difference, but passes",
	}
	if !slices.Equal(got.Wrong, want) {
		t.Errorf("wrong: got %q, want %q", got.Wrong, want)
	}
}
