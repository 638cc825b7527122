package recording_test

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/source/recording"
)

// TestLikeCollections records collections that differ only in namespace, selectors, trim or kind:
// each scope plays its own.
func TestLikeCollections(t *testing.T) {
	scopes := []source.Scope{
		{Resource: configMaps},
		{Resource: configMaps, Namespace: "shop"},
		{Resource: configMaps, Labels: "app=web"},
		{Resource: configMaps, Fields: "metadata.name=a"},
		{Resource: configMaps, Trim: object.Trim{"data"}},
		{Resource: configMaps, Trim: object.Trim{"metadata.managedFields"}},
		{Resource: configMaps, Kind: configMaps.GroupVersion().WithKind("PartialObjectMetadata")},
		{Resource: configMaps, Labels: "app=web", Trim: object.Trim{"data"}},
	}
	rec := recordLists(t, scopes)
	for _, scopes := range [][]source.Scope{scopes, rec.Collections()} { // the latter have a kind
		for i, scope := range scopes {
			if n := played(t, rec, scope, 0); n != i {
				t.Errorf("%+v plays the collection of %d objects, want %d", scope, n, i)
			}
		}
	}
}

// TestEqualCollections records one scope twice, as a namespace that is removed and comes back: PlayOptions.Nth chooses.
func TestEqualCollections(t *testing.T) {
	scope := source.Scope{Resource: configMaps, Namespace: "shop"}
	rec := recordLists(t, []source.Scope{scope, scope})
	for nth := range 2 {
		if n := played(t, rec, scope, nth); n != nth {
			t.Errorf("Nth %d plays the collection of %d objects", nth, n)
		}
	}
	for _, nth := range []int{-1, 2} {
		if _, err := recording.Play[*corev1.ConfigMap](rec, scope, recording.PlayOptions{Nth: nth}); err == nil || !strings.Contains(err.Error(), "2 collections fit") {
			t.Errorf("Nth %d: %v", nth, err)
		}
	}
}

// recordLists records a list for each scope, whose number of objects is the scope's index.
func recordLists(t *testing.T, scopes []source.Scope) *recording.Recording {
	t.Helper()
	var file bytes.Buffer
	recorder, err := recording.NewRecorder(&file, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, scope := range scopes {
		if _, err := recording.Record(recorder, listOf(i), scope).List(t.Context(), source.ListOptions[*corev1.ConfigMap]{}, ignore); err != nil {
			t.Fatal(err)
		}
	}
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	rec, err := recording.Read(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// played returns how many objects the list of the nth collection of the scope has.
func played(t *testing.T, rec *recording.Recording, scope source.Scope, nth int) (n int) {
	t.Helper()
	player, err := recording.Play[*corev1.ConfigMap](rec, scope, recording.PlayOptions{Speed: recording.AtOnce, Nth: nth})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = player.List(t.Context(), source.ListOptions[*corev1.ConfigMap]{}, func(*corev1.ConfigMap) error {
		n++
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return n
}
