package store

import (
	"fmt"
	"maps"
	"reflect"
	"testing"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
)

// listWorld runs random operations on a store while a list arrives in it.
type listWorld struct {
	*foldWorld
	neighbors *Neighbors[*thing]
	list      []*thing // the objects of gather
	arrivals  []arrivedBatch
	elsewhere fold.Packer // of a file, say
}

// arrivedBatch is a batch of arrivals, and its objects.
type arrivedBatch struct {
	arrivals *Arrivals[*thing]
	want     []*thing
}

func (w *listWorld) step() {
	switch w.rand.IntN(3) {
	case 0:
		w.foldWorld.step()
	case 1:
		w.add()
	case 2:
		w.arrive()
	}
	if w.rand.IntN(12) == 0 {
		w.end()
	}
}

// listed makes an object of the list, whose version is comparable.
func (w *listWorld) listed(k object.Key) *thing {
	o := w.thing(k)
	o.ResourceVersion = fmt.Sprint(w.version)
	return o
}

// add appends objects to the list, and changes what is there.
func (w *listWorld) add() {
	if w.gather == nil {
		w.gather, w.neighbors, w.list = w.writer.Store().Gather(w.rand.IntN(50)), w.writer.Store().Neighbors(), nil
	}
	for range w.rand.IntN(60) {
		w.addOne(w.key())
		switch i := w.rand.IntN(len(w.list)); w.rand.IntN(30) {
		case 0:
			w.gather.Remove(i)
			last := len(w.list) - 1
			w.list[i] = w.list[last]
			w.list = w.list[:last]
		case 1:
			w.list[i] = w.listed(object.KeyOf(w.list[i]))
			w.gather.Set(i, w.list[i])
		case 2:
			if w.rand.IntN(5) == 0 {
				w.gather.Truncate(i)
				w.list = w.list[:i]
			}
		case 3:
			w.gather.Fold()
		}
		if len(w.list) == 0 {
			return
		}
	}
}

func (w *listWorld) addOne(k object.Key) {
	o := w.listed(k)
	encoded, err := w.codec.Append(nil, o)
	held, ok := w.writer.Store().Snapshot().Held(k)
	switch n := w.rand.IntN(5); {
	case n == 0 && ok:
		o = held.Object()
		w.gather.AddHeld(held)
	case n == 1 && err == nil:
		w.gather.AddPacked(k, o.UID, o.ResourceVersion, w.elsewhere.Pack(encoded, nil))
	case n <= 3 && err == nil:
		o = w.decoded(w.neighbors, o, encoded, w.gather)
	default:
		w.gather.Add(o)
	}
	w.list = append(w.list, o)
}

// arrive puts a part of the list into the store.
func (w *listWorld) arrive() {
	if w.gather == nil || w.gather.Waiting() == 0 {
		return
	}
	g, from := w.gather, w.gather.arrived
	a, namespace := w.nextArrivals(), []string{"", "", "ns1"}[w.rand.IntN(3)]
	txn := w.writer.Begin()
	txn.PutArrivals(g, a, namespace)
	want := arrivedBatch{arrivals: a}
	for _, o := range w.list[from:g.arrived] {
		if k := object.KeyOf(o); w.model[k] == nil && (namespace == "" || namespace == k.Namespace) {
			w.model[k] = o
			want.want = append(want.want, o)
		}
	}
	w.arrivals = append(w.arrivals, want)
	w.keep(txn.Commit())
}

// nextArrivals folds the next objects of the list, or opens packed ones.
func (w *listWorld) nextArrivals() *Arrivals[*thing] {
	g, to := w.gather, w.gather.arrived
	for to < len(g.items) && g.items[to].folded != nil && g.items[to].own {
		to++
	}
	if to == g.arrived || w.rand.IntN(2) == 0 {
		return g.FoldArrivals()
	}
	opened, err := g.OpenPacked(g.arrived, to, w.codec)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.rand.IntN(2) == 0 {
		g.Unfold(opened)
		copy(w.list[g.arrived:], opened)
	}
	return g.Arrivals(opened)
}

// end completes the list, or gives it up.
func (w *listWorld) end() {
	if w.gather == nil {
		return
	}
	if w.rand.IntN(3) > 0 {
		w.replace([]string{"", "ns1"}[w.rand.IntN(2)], w.rand.IntN(2) == 0)
	} else {
		w.gather.Close()
	}
	if w.gather.Len() != 0 || w.gather.Open() != 0 || w.gather.EncodedBytes() != 0 {
		w.t.Fatalf("a closed list has %d objects, %d of them open, and %d bytes of encodings", w.gather.Len(), w.gather.Open(), w.gather.EncodedBytes())
	}
	w.gather, w.list = nil, nil
	for _, a := range w.arrivals {
		w.checkArrivals(a)
	}
	w.arrivals = nil
}

func (w *listWorld) checkArrivals(a arrivedBatch) {
	if w.rand.IntN(2) == 0 {
		a.arrivals.Release()
	}
	if got := objects(a.arrivals.All()); !same(got, a.want) || a.arrivals.Len() != len(a.want) {
		w.t.Fatalf("the arrivals are %v, want %v", got, a.want)
	}
}

func (w *listWorld) replace(namespace string, rewritten bool) {
	next := model{}
	for _, o := range w.list {
		k := object.KeyOf(o)
		if had := next[k]; (namespace == "" || k.Namespace == namespace) && (had == nil || !object.OlderResourceVersion(o.ResourceVersion, had.ResourceVersion)) {
			next[k] = o
		}
	}
	for k, o := range w.model {
		if listed := next[k]; namespace != "" && k.Namespace != namespace || !rewritten && listed != nil && object.OlderResourceVersion(listed.ResourceVersion, o.ResourceVersion) {
			next[k] = o
		}
	}
	txn := w.writer.Begin()
	if w.rand.IntN(3) == 0 {
		txn.LeaveFolded(w.rand.IntN(3))
	}
	deltas := txn.Replace(namespace, w.gather, fmt.Sprint(w.version), rewritten)
	got := maps.Clone(w.model)
	for _, d := range deltas {
		if d.Type == object.Deleted {
			delete(got, d.Key)
		} else {
			got[d.Key] = d.Object
		}
	}
	if removed := txn.Removed(); removed != nil {
		for k, o := range removed.All() {
			if !reflect.DeepEqual(o, w.model[k]) {
				w.t.Fatalf("%v is removed, was %v", o, w.model[k])
			}
			delete(got, k)
		}
	}
	if !reflect.DeepEqual(got, next) {
		w.t.Fatal("the deltas do not lead from the one state to the other")
	}
	w.model = next
	w.gather.Close()
	w.keep(txn.Commit())
}

// checkList fails the test unless the list has its objects.
func (w *listWorld) checkList() {
	w.t.Helper()
	if w.gather == nil {
		return
	}
	open := 0
	for i := range w.gather.items {
		item := &w.gather.items[i]
		if item.folded == nil && !item.stored {
			open++
		}
	}
	if w.gather.Open() != open {
		w.t.Fatalf("%d objects of the list are said to be open, %d are", w.gather.Open(), open)
	}
	if got := objects(w.gather.All()); !same(got, w.list) {
		w.t.Fatalf("the list has %v, want %v", got, w.list)
	}
}

// TestListModel runs random operations, against a map, on a store in which lists arrive, some of
// which are never completed.
func TestListModel(t *testing.T) {
	testseed.Each(t, 2, func(t *testing.T, seed uint64) {
		var codec codec.Codec[*thing] = thingCodec{}
		if seed%2 == 0 {
			codec = newPatchingCodec(t)
		}
		w := &listWorld{foldWorld: newFoldWorldOf(t, seed, codec)}
		if seed%4 < 2 {
			w.common = inCommon + inCommon
		}
		for range 100 {
			w.step()
			w.checkList()
			w.checkPacker()
			if w.rand.IntN(4) == 0 { // reading an index leaves no entries pending
				w.verify(w.writer.Store().Snapshot(), w.model)
				checkFree(t, w.writer)
			}
		}
		for _, k := range w.kept {
			w.verify(k.snapshot, k.model)
		}
		w.end()
		w.empty()
	})
}
