package main

import (
	"strings"
	"testing"
	"time"
)

// TestMeasure measures small things, and checks that the page has every row.
func TestMeasure(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	s := size{Pods: 60, Watchers: 4, Restarts: 3, Rate: 50, GetRate: 100, For: time.Second, Lists: 1, Many: 3000}
	page, err := measure(t.Context(), s, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"resident memory", "list of all pods", "get at 100/s", "start together", "watchers of all pods",
		"one node each", "killed",
		"on the fly",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no row %q in\n%s", want, page)
		}
	}
}

// TestOnly names a measurement that does not exist, before anything is started.
func TestOnly(t *testing.T) {
	if _, err := measure(t.Context(), small, "list,wach"); err == nil || !strings.Contains(err.Error(), `"wach"`) {
		t.Errorf("the error is %v", err)
	}
}
