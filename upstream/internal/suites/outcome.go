package suites

import (
	"regexp"
	"strconv"
	"strings"
)

// Failure is a test, subtest or Ginkgo spec that failed.
type Failure struct {
	// Test is the name. That of a subtest follows those it is in, after slashes.
	Test string
	// Why says what is known beyond that it failed; it is mostly empty.
	Why string
}

// Report is the result of a package.
type Report struct {
	Suite, Package string
	// Passed and Skipped count top-level tests and Ginkgo specs. Omitted counts tests that cannot
	// run outside of their package.
	Passed, Skipped, Omitted int
	Failures                 []Failure
	// Ran are the top-level tests that ran.
	Ran []string
}

// name identifies the package in messages.
func (r *Report) name() string { return r.Suite + " " + r.Package }

// add adds the results of another run of the package's tests.
func (r *Report) add(other Report) {
	r.Passed, r.Skipped = r.Passed+other.Passed, r.Skipped+other.Skipped
	r.Failures, r.Ran = append(r.Failures, other.Failures...), append(r.Ran, other.Ran...)
}

// resultLine matches what package testing prints about a test.
var resultLine = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): (\S+) \(`)

// readTest reads the output of a process that ran one top-level test, possibly several times. why
// says why the process failed; "" means that it did not.
func readTest(test, output, why string) Report {
	r := Report{Ran: []string{test}}
	var failed []string
	passed, skipped := false, false
	for _, m := range resultLine.FindAllStringSubmatch(output, -1) {
		switch status, name := m[1], m[2]; {
		case status == "FAIL":
			failed = append(failed, name)
		case name == test:
			passed, skipped = passed || status == "PASS", skipped || status == "SKIP"
		}
	}
	switch {
	case len(failed) > 0:
		for _, name := range innermost(failed) {
			r.Failures = append(r.Failures, Failure{Test: name})
		}
		if strings.HasPrefix(why, "panic: ") && len(r.Failures) == 1 {
			r.Failures[0].Why = why
		}
	case why != "":
		r.Failures = []Failure{{Test: test, Why: why}}
	case passed:
		r.Passed = 1
	case skipped:
		r.Skipped = 1
	default:
		r.Failures = []Failure{{Test: test, Why: "it ended without a result"}}
	}
	return r
}

// runningTests matches the list of running tests that package testing prints when its time is up.
var runningTests = regexp.MustCompile(`(?m)^\t+running tests:\n((?:\t+.+ \([^)]*\)\n)+)`)

// hungSubtests returns the subtests that were running when the time was up.
func hungSubtests(output string) []string {
	var running []string
	for _, m := range runningTests.FindAllStringSubmatch(output, -1) {
		for _, line := range strings.Split(strings.TrimSpace(m[1]), "\n") {
			name := strings.TrimSpace(line[:strings.LastIndex(line, " (")])
			if strings.Contains(name, "/") {
				running = append(running, name)
			}
		}
	}
	return innermost(running)
}

// innermost returns the tests that have no failed subtests, without repetitions.
func innermost(failed []string) []string {
	var inner []string
	seen := map[string]bool{}
	for _, name := range failed {
		if seen[name] {
			continue
		}
		seen[name] = true
		outer := false
		for _, other := range failed {
			outer = outer || strings.HasPrefix(other, name+"/")
		}
		if !outer {
			inner = append(inner, name)
		}
	}
	return inner
}

var (
	ginkgoSummary = regexp.MustCompile(`(\d+) Passed \| (\d+) Failed \| (\d+) Pending \| (\d+) Skipped`)
	ginkgoFailure = regexp.MustCompile(`(?m)^ *\[(?:FAIL|PANICKED!?|TIMEDOUT|INTERRUPTED)\] (.+)$`)
)

// readGinkgo reads the output of a process that ran Ginkgo's specs, from a test of the given name.
func readGinkgo(test, output, why string) Report {
	r := Report{Ran: []string{test}}
	failed := 0
	summaries := ginkgoSummary.FindAllStringSubmatch(output, -1)
	for _, m := range summaries {
		r.Passed += atoi(m[1])
		failed += atoi(m[2])
		r.Skipped += atoi(m[3]) + atoi(m[4])
	}
	seen := map[string]bool{}
	for _, m := range ginkgoFailure.FindAllStringSubmatch(output, -1) {
		if name := specName(m[1]); !seen[name] {
			seen[name] = true
			r.Failures = append(r.Failures, Failure{Test: name})
		}
	}
	switch {
	case len(summaries) == 0 && why == "":
		r.Failures = append(r.Failures, Failure{Test: test, Why: "it ended without a result"})
	case len(r.Failures) == 0 && (failed > 0 || why != ""):
		r.Failures = append(r.Failures, Failure{Test: test, Why: why})
	}
	return r
}

// specName returns the name of a spec without the place in the source that may follow it.
func specName(line string) string {
	if i := strings.LastIndex(line, " (/"); i >= 0 {
		line = line[:i]
	}
	return strings.TrimSpace(line)
}

// atoi reads digits.
func atoi(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}
