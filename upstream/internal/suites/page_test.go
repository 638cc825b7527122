package suites

import (
	"strings"
	"testing"
	"time"
)

func TestPage(t *testing.T) {
	reports := []Report{{
		Suite: "s", Package: "p", Passed: 3, Skipped: 1, Omitted: 2, Ran: []string{"TestA", "TestB"},
		Failures: []Failure{{Test: "TestA/one"}, {Test: "TestB"}},
	}}
	differences := []Difference{{Suite: "s", Package: "p", Test: "TestA", Page: "migrating.md", Says: "a | b", Because: "it expects b"}}
	page := Page(reports, differences, Options{ClientGo: "v1.2.3"}, time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	for _, want := range []string{
		"client-go v1.2.3", "2026-01-02", "| s | `p` | 3 | 1 | 1 | 1 | 2 |\n",
		"| `TestA` in s's `p` | it expects b | [migrating.md](../docs/migrating.md): “a \\| b” |\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}
