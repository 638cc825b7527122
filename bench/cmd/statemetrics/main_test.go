package main

import (
	"os"
	"strings"
	"testing"
)

// TestMain lets the test's program be that of an engine.
func TestMain(m *testing.M) {
	if isRun(os.Args) {
		runAsChild(os.Args)
	}
	os.Exit(m.Run())
}

// TestSameMetrics runs all engines with few objects. They must find the same resources, objects and metrics.
func TestSameMetrics(t *testing.T) {
	results, err := compare(t, 60, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := results[clientGo][0]
	if want.Resources < 50 || want.Objects < 200 || want.Metrics < 100*want.Objects {
		t.Errorf("client-go: %d resources, %d objects, %d bytes", want.Resources, want.Objects, want.Metrics)
	}
	for _, e := range engines {
		got := results[e][0]
		if got.Resources != want.Resources || got.Objects != want.Objects || got.Metrics != want.Metrics {
			t.Errorf("%s: %d resources, %d objects, %d bytes; want those of client-go: %+v", e, got.Resources, got.Objects, got.Metrics, want)
		}
		if got.CPU <= 0 || got.Heap == 0 || got.PeakRSS < got.RSS/2 || got.RSS == 0 {
			t.Errorf("%s: %+v", e, got)
		}
	}
	if text := page(results, 60, 1); strings.Count(text, "\n| ") < 8 || strings.Contains(text, "%!") || strings.Contains(text, "NaN") {
		t.Errorf("the page: %s", text)
	}
}
