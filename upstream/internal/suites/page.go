package suites

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Page returns a page with the results of all suites.
func Page(reports []Report, differences []Difference, o Options, on time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Suites

Tests of other projects on this project's packages, taken from the module cache when they run: client-go %s, controller-runtime, and
Kubernetes' controllers, in the versions of [go.mod](go.mod) and [controllerruntime/go.mod](../controllerruntime/go.mod). `+"`make suites`"+` wrote
this page on %s.

Each test has a process of its own. A test that uses unexported names of a replaced package cannot run outside of it; the last column counts these.

`, o.ClientGo, on.Format(time.DateOnly))
	b.WriteString("| suite | package | passed | documented differences | failed | skipped by themselves | cannot run |\n|---|---|---|---|---|---|---|\n")
	judged := Judge(reports, differences)
	for i := range reports {
		r := &reports[i]
		documented := len(judged.Documented[r.name()])
		fmt.Fprintf(&b, "| %s | `%s` | %d | %d | %d | %d | %d |\n",
			r.Suite, r.Package, r.Passed, documented, len(r.Failures)-documented, r.Skipped, r.Omitted)
	}
	writeDifferences(&b, differences)
	return b.String()
}

// writeDifferences writes the documented differences.
func writeDifferences(b *strings.Builder, differences []Difference) {
	b.WriteString("\n## Documented differences\n\n")
	if len(differences) == 0 {
		b.WriteString("There are none.\n")
		return
	}
	b.WriteString("| test | it expects | the page says |\n|---|---|---|\n")
	sorted := slices.Clone(differences)
	slices.SortStableFunc(sorted, func(a, b Difference) int {
		return strings.Compare(a.Suite+a.Package+a.Test, b.Suite+b.Package+b.Test)
	})
	for _, d := range sorted {
		fmt.Fprintf(b, "| `%s` in %s's `%s` | %s | [%s](../docs/%s): “%s” |\n", d.Test, d.Suite, d.Package, d.Because, d.Page, d.Page, strings.ReplaceAll(d.Says, "|", "\\|"))
	}
}
