package main

import (
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
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

// TestFlyingLists reads all pods page by page, and compares them with those that a watch begins with.
func TestFlyingLists(t *testing.T) {
	f := &flying{pods: chunk + 700}
	var names []string
	token := ""
	for {
		w := httptest.NewRecorder()
		f.list(w, url.Values{"limit": {"500"}, "continue": {token}})
		list := &corev1.PodList{}
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(w.Body.Bytes(), nil, list); err != nil {
			t.Fatal(err)
		}
		if n := len(list.Items); n == 0 || n > 500 {
			t.Fatalf("a page of %d pods", n)
		}
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		if token = list.Continue; token == "" {
			break
		}
	}
	var want []string
	for first := 0; first < f.pods; first += chunk {
		for _, pod := range makeChunk(first, f.pods) {
			want = append(want, pod.Name)
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("%d names in pages, %d pods", len(names), len(want))
	}
}
