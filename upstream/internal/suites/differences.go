package suites

import (
	"fmt"
	"slices"
	"strings"
)

// Difference is a test that fails because this project does something else on purpose.
type Difference struct {
	// Suite and Package say where the test is.
	Suite, Package string
	// Test is the name of a test or of one of its subtests; that of a test covers all its subtests.
	Test string
	// Page is the page below docs that says so, and Says is text from it.
	Page, Says string
	// Because says what the test expects instead.
	Because string
}

// covers reports whether a failure is the difference.
func (d Difference) covers(r *Report, f Failure) bool {
	return d.of(r) && (f.Test == d.Test || strings.HasPrefix(f.Test, d.Test+"/"))
}

// of reports whether the difference is one of a report's package.
func (d Difference) of(r *Report) bool { return d.Suite == r.Suite && d.Package == r.Package }

// Judgment is what reports amount to.
type Judgment struct {
	// Documented are the failures that are differences, by package.
	Documented map[string][]string
	// Wrong has a line for each failure that is none, and for each difference whose test ran and did not fail.
	Wrong []string
}

// Judge compares reports with the documented differences.
func Judge(reports []Report, differences []Difference) Judgment {
	j := Judgment{Documented: map[string][]string{}}
	for i := range reports {
		r := &reports[i]
		for _, f := range r.Failures {
			if slices.ContainsFunc(differences, func(d Difference) bool { return d.covers(r, f) }) {
				j.Documented[r.name()] = append(j.Documented[r.name()], f.Test)
			} else {
				j.Wrong = append(j.Wrong, strings.TrimSpace(fmt.Sprintf("%s: %s failed %s", r.name(), f.Test, parenthesized(f.Why))))
			}
		}
		for _, d := range differences {
			if d.of(r) && d.ran(r) && !slices.ContainsFunc(r.Failures, func(f Failure) bool { return d.covers(r, f) }) {
				j.Wrong = append(j.Wrong, fmt.Sprintf("%s: %s is listed as a difference, but passes", r.name(), d.Test))
			}
		}
	}
	return j
}

func parenthesized(s string) string {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}

// ran reports whether the test that the difference is about, or is in, ran.
func (d Difference) ran(r *Report) bool {
	test, _, _ := strings.Cut(d.Test, "/")
	return slices.Contains(r.Ran, test)
}

// oneLine returns text with each run of white space replaced by a space, as it is compared with pages.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
