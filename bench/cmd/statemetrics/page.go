package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// page returns the content of STATEMETRICS.md.
func page(results map[engine][]Usage, pods, rounds int) string {
	first := results[clientGo][0]
	return fmt.Sprintf(`# A program like kube-state-metrics

The program has an informer for each of %d built-in resources, and keeps each object's metrics as text. The cluster has %d objects: %d pods of small
owners, events, ReplicaSets, Deployments, ConfigMaps, Secrets, EndpointSlices, nodes and leases; most resources have none. The server is
tidingstest's, over TLS and HTTP/2; it and each program run in their own processes. The heap includes %.1f MB of metrics.
Figures are medians of %d runs. `+"`make state-metrics`"+` wrote this page on %s.

%s`, first.Resources, first.Objects, pods, float64(first.Metrics)/1e6, rounds, time.Now().Format(time.DateOnly), table(results))
}

// table returns a Markdown table of what the engines used.
func table(results map[engine][]Usage) string {
	var b strings.Builder
	row := func(cells ...string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	header, rule := []string{"what"}, []string{"---"}
	for _, e := range engines {
		header, rule = append(header, string(e)), append(rule, "---")
	}
	row(header...)
	row(rule...)
	for _, fact := range []struct {
		name, format string
		of           func(Usage) float64
	}{
		{"startup CPU", "%.2f s", func(u Usage) float64 { return u.CPU.Seconds() }},
		{"startup time", "%.2f s", func(u Usage) float64 { return u.Wall.Seconds() }},
		{"live heap", "%.1f MB", func(u Usage) float64 { return float64(u.Heap) / 1e6 }},
		{"live heap without the metrics' text", "%.1f MB", func(u Usage) float64 { return (float64(u.Heap) - float64(u.Metrics)) / 1e6 }},
		{"heap objects", "%.0f", func(u Usage) float64 { return float64(u.HeapObjects) }},
		{"RSS after startup", "%.0f MB", func(u Usage) float64 { return float64(u.RSS) / 1e6 }},
		{"peak RSS", "%.0f MB", func(u Usage) float64 { return float64(u.PeakRSS) / 1e6 }},
	} {
		cells, base := []string{fact.name}, median(results[clientGo], fact.of)
		for _, e := range engines {
			cell := fmt.Sprintf(fact.format, median(results[e], fact.of))
			if e != clientGo {
				cell += fmt.Sprintf(" (%.2f×)", median(results[e], fact.of)/base)
			}
			cells = append(cells, cell)
		}
		row(cells...)
	}
	return b.String()
}

func median(usages []Usage, of func(Usage) float64) float64 {
	sorted := slices.SortedFunc(slices.Values(usages), func(a, b Usage) int { return cmp.Compare(of(a), of(b)) })
	return of(sorted[len(sorted)/2])
}
