package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidings/tidings/upstream/internal/compare"
)

// page returns the content of RESULTS.md.
func page(f compareFlags, theirs, ours compare.Result, on time.Time) string {
	return fmt.Sprintf(`# Results

Kubernetes' ReplicaSet, ReplicationController, Deployment, Job, EndpointSlice and namespace controllers and its garbage collector,
with client-go's informer factories and with ours, each against its own real control plane. The scenario has %d rounds, %v apart; every %d rounds
the API server goes down and comes back, alternately killed and shut down cleanly. The figures are those of the process that runs the controllers; the requests
are all that it sends, including those of the controllers themselves. `+"`make upstream`"+` wrote this page on %s.

%s
The end states are equal: %d lines that describe the resulting namespaces, workloads, pods, endpoints and owned objects.

Differences in writes do not come from the informers: how often a controller writes a status depends on how many changes it sees at once. Our additional
lists are of two kinds: after an outage each informer requests one object, to find out whether the server was restored from a
backup; and if a collection's version has expired, ours lists it where client-go opens one more watch. Lists and watches
together are what the informers ask for.
`, f.rounds, f.pause, f.restartEvery, on.Format(time.DateOnly), table(theirs, ours), len(theirs.State.Lines))
}

// table returns a Markdown table of what the controllers used.
func table(theirs, ours compare.Result) string {
	var b strings.Builder
	row := func(cells ...string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	row("what", theirs.Engine, ours.Engine, "ratio")
	row("---", "---", "---", "---")
	row("time", theirs.Took.Round(time.Second).String(), ours.Took.Round(time.Second).String(), "")
	row("of which until all work was done after the last round", theirs.State.Settled.Round(time.Second).String(), ours.State.Settled.Round(time.Second).String(), "")
	row("API server killed", fmt.Sprint(theirs.Kills), fmt.Sprint(ours.Kills), "")
	row("API server shut down and restarted", fmt.Sprint(theirs.Restarts), fmt.Sprint(ours.Restarts), "")
	for _, fact := range []struct {
		name         string
		theirs, ours float64
		format       string
	}{
		{"CPU", theirs.Used.CPU.Seconds(), ours.Used.CPU.Seconds(), "%.2f s"},
		{"live heap at the end", float64(theirs.Used.Heap) / 1e6, float64(ours.Used.Heap) / 1e6, "%.1f MB"},
		{"peak RSS", float64(theirs.Used.PeakRSS) / 1e6, float64(ours.Used.PeakRSS) / 1e6, "%.0f MB"},
	} {
		row(fact.name, fmt.Sprintf(fact.format, fact.theirs), fmt.Sprintf(fact.format, fact.ours), ratio(fact.theirs, fact.ours))
	}
	verbs := maps.Clone(theirs.Used.Requests)
	maps.Copy(verbs, ours.Used.Requests)
	for _, verb := range slices.Sorted(maps.Keys(verbs)) {
		a, b := theirs.Used.Requests[verb], ours.Used.Requests[verb]
		row("requests: "+verb, fmt.Sprint(a), fmt.Sprint(b), ratio(float64(a), float64(b)))
	}
	reads := func(r compare.Result) int { return r.Used.Requests["list"] + r.Used.Requests["watch"] }
	row("requests: list and watch together", fmt.Sprint(reads(theirs)), fmt.Sprint(reads(ours)),
		ratio(float64(reads(theirs)), float64(reads(ours))))
	return b.String()
}

func ratio(theirs, ours float64) string {
	if theirs == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f×", ours/theirs)
}
