package store

import (
	"reflect"
	"runtime"
	"testing"

	"github.com/tidings/tidings/object"
)

// TestArrivalsCountOnce: unfoldable objects that a list has put into the store are open there and
// count only there, whatever is done with the list afterwards.
func TestArrivalsCountOnce(t *testing.T) {
	const n, every, known = 40, 10, 7
	thingOf := func(i int) *thing {
		o := plainThing(i)
		if i%every == 0 || i == known {
			o.Labels["open"] = ""
		}
		return o
	}
	for name, after := range map[string]struct {
		do   func(g *Gathering[*thing])
		open int // in the list and not in the store
	}{
		"nothing":           {func(*Gathering[*thing]) {}, 1},
		"folded again":      {func(g *Gathering[*thing]) { g.from = 0; g.Fold() }, 1},
		"an arrival is set": {func(g *Gathering[*thing]) { g.Set(0, plainThing(0)) }, 2},
		"another is set":    {func(g *Gathering[*thing]) { g.Set(known, plainThing(known)) }, 1},
		"both are removed":  {func(g *Gathering[*thing]) { g.Remove(every); g.Remove(known) }, 0},
		"cut short":         {func(g *Gathering[*thing]) { g.Truncate(known) }, 0},
		"closed":            {func(g *Gathering[*thing]) { g.Close() }, 0},
	} {
		w, _ := newFolding(t, 0)
		txn := w.Begin()
		txn.Set(object.KeyOf(thingOf(known)), thingOf(known))
		txn.Commit()
		g := w.Store().Gather(n)
		for i := range n {
			g.Add(thingOf(i))
		}
		a := g.FoldArrivals()
		txn = w.Begin()
		txn.PutArrivals(g, a, "")
		st := txn.Commit().FoldStats()
		if want := n - n/every - 1; a.Len() != n-1 || a.Open() != want || st.Folded != want || st.Open != n-want {
			t.Errorf("%s: %d arrivals, %d of them open, %+v", name, a.Len(), a.Open(), st)
		}
		after.do(g)
		if g.Open() != after.open {
			t.Errorf("%s: %d are open in the list, want %d", name, g.Open(), after.open)
		}
		if a.Release(); a.Open() != 0 {
			t.Errorf("%s: %d are open that were let go of", name, a.Open())
		}
		g.Close()
	}
}

// TestRemovedArrival removes an arrival while others are waiting, the last of which takes its
// place: all are folded from their own encodings.
func TestRemovedArrival(t *testing.T) {
	const n, removed = 20, 3
	codec := newPatchingCodec(t)
	w := newFoldWorldOf(t, 1, codec).writer
	objects := neighborThings(1, 2*n)
	g, neighbors := w.Store().Gather(0), w.Store().Neighbors()
	arrive := func() {
		for g.Waiting() > 0 {
			a := g.FoldArrivals()
			txn := w.Begin()
			txn.PutArrivals(g, a, "")
			txn.Commit()
		}
	}
	add := func(objects []*thing) {
		for _, o := range objects {
			addBeside(t, g, neighbors, codec, o)
		}
	}
	add(objects[:n/2])
	arrive()
	add(objects[n/2 : n])
	g.Remove(removed)
	arrive()
	add(objects[n:])
	g.Fold()
	if g.EncodedBytes() != 0 || g.Open() != 0 {
		t.Errorf("%d objects are open, and %d bytes are kept of them", g.Open(), g.EncodedBytes())
	}
	txn := w.Begin()
	txn.Replace("", g, "100", false)
	g.Close()
	s := txn.Commit()
	runtime.GC() // otherwise the objects are still open
	for i, o := range objects {
		if got, ok := s.Get(object.KeyOf(o)); ok != (i != removed) || ok && !reflect.DeepEqual(got, o) {
			t.Errorf("%v: it is there: %t, and is %v", object.KeyOf(o), ok, got)
		}
	}
}

// TestArrivalsThatTheStoreHasLost puts states of the store into it that it has lost since, folded and open ones.
func TestArrivalsThatTheStoreHasLost(t *testing.T) {
	const n, folded = 10, 5
	w := newFoldWorld(t, 1)
	txn := w.writer.Begin()
	for i := range n {
		o := plainThing(i)
		txn.Put(object.KeyOf(o), o)
	}
	txn.Commit()
	for i := range folded {
		foldKeys(w.writer, true, object.KeyOf(plainThing(i)))
	}
	w.gather = w.writer.Store().Gather(n)
	for h := range w.writer.Store().Snapshot().AllHeld("") {
		w.gather.AddHeld(h)
		w.model[h.Key()] = h.Object()
	}
	txn = w.writer.Begin()
	for k := range w.model {
		txn.Remove(k)
	}
	txn.Commit()
	txn = w.writer.Begin()
	txn.PutArrivals(w.gather, w.gather.FoldArrivals(), "")
	txn.Commit()
	w.checkPacker()
	if w.gather.Open() != 0 {
		t.Errorf("%d objects are open in the list", w.gather.Open())
	}
	w.gather.Close()
	w.empty()
}
