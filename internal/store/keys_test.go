package store

import (
	"slices"
	"testing"

	"github.com/tidings/tidings/object"
)

// TestKeysOfCollections: Keys works for every collection, in its order, and opens nothing.
func TestKeysOfCollections(t *testing.T) {
	w, sorted := newFolding(t, 20)
	elsewhere := plainThing(0)
	elsewhere.Namespace = "other"
	txn := w.Begin()
	txn.Set(object.KeyOf(elsewhere), elsewhere)
	txn.Commit()
	everything := append(slices.Clone(sorted), object.KeyOf(elsewhere))
	if folded := foldKeys(w, true, everything...); folded != len(everything) {
		t.Fatalf("%d of %d are folded", folded, len(everything))
	}
	snap := w.Store().Snapshot()
	g := w.Store().Gather(0)
	items := object.Items[*thing]{plainThing(101), plainThing(100)}
	var listed []object.Key
	for _, o := range items {
		g.Add(o)
		listed = append(listed, object.KeyOf(o))
	}
	arrivals := g.FoldArrivals()
	arrivals.Release()
	for name, tt := range map[string]struct {
		of   object.Collection[*thing]
		want []object.Key
	}{
		"everything":     {snap, everything},
		"a namespace":    {snap.In("ns"), sorted},
		"another":        {snap.In("other"), everything[len(sorted):]},
		"no namespace":   {snap.In("none"), nil},
		"a gathering":    {g, listed},
		"arrivals":       {arrivals, listed},
		"a list of open": {items, listed},
	} {
		keys := Keys(tt.of)
		if keys.Len() != len(tt.want) {
			t.Errorf("%s: %d keys, want %d", name, keys.Len(), len(tt.want))
		}
		var got []object.Key
		for key, o := range keys.All() {
			if got = append(got, key); o != nil {
				t.Errorf("%s: %v has an object", name, key)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
		for range keys.All() {
			break // stops early
		}
	}
	if opens := w.Store().Snapshot().FoldStats().Opens; opens != 0 {
		t.Errorf("%d were opened", opens)
	}
	g.Close()
}
