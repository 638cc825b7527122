package suites

import (
	"strings"
	"testing"
	"time"
)

func TestPrintReport(t *testing.T) {
	r := Report{
		Suite: "s", Package: "p", Passed: 3, Skipped: 1, Omitted: 2,
		Failures: []Failure{{Test: "TestA/one"}, {Test: "TestB", Why: "panic: oh"}},
	}
	var b strings.Builder
	printReport(&b, r, []Difference{{Suite: "s", Package: "p", Test: "TestA"}}, time.Second)
	const want = "s p: 3 passed, 1 failed as documented, 1 failed, 1 skipped, 2 cannot run from outside, in 1s\n" +
		"\tTestA/one failed as documented\n\tTestB failed (panic: oh)\n"
	if got := b.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
