package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/tree"
	"github.com/tidings/tidings/object"
)

// world runs random operations on a writer and on the model, and keeps some snapshots with their expected content.
type world struct {
	t       testing.TB
	rand    *rand.Rand
	writer  *Writer[*thing]
	txn     *Txn[*thing]
	model   model
	indexes []*Index[*thing]
	removed []*Index[*thing]
	kept    []keptSnapshot
}

type keptSnapshot struct {
	snapshot *Snapshot[*thing]
	model    model
	values   map[*Index[*thing]][]string
}

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 0)), writer: NewWriter[*thing](Options{}), model: model{}}
	w.addIndex()
	return w
}

func (w *world) key() object.Key {
	return object.Key{Namespace: fmt.Sprint("ns", w.rand.IntN(3)), Name: fmt.Sprint("n", w.rand.IntN(150))}
}

func (w *world) thing(k object.Key) *thing {
	labels := map[string]string{}
	for _, l := range []string{"app", "node", "tier"} {
		if w.rand.IntN(4) > 0 {
			labels[l] = fmt.Sprint(w.rand.IntN(6))
		}
	}
	return newThing(k.Namespace, k.Name, labels)
}

func (w *world) addIndex() {
	name := []string{"app", "node", "tier", "all"}[w.rand.IntN(4)]
	fn := byLabel(name)
	if name == "all" {
		fn = byAllLabels
	}
	w.indexes = append(w.indexes, w.writer.AddIndex(name, fn))
}

func (w *world) removeIndex() {
	if len(w.indexes) == 0 {
		return
	}
	i := w.rand.IntN(len(w.indexes))
	w.writer.RemoveIndex(w.indexes[i])
	w.removed = append(w.removed, w.indexes[i])
	w.indexes = slices.Delete(w.indexes, i, i+1)
}

// batch runs one transaction of random size and bias, and compares everything it returns.
func (w *world) batch() {
	w.txn = w.writer.Begin()
	before := maps.Clone(w.model)
	deletes := w.rand.IntN(11)
	for range 1 + w.rand.IntN(1<<w.rand.IntN(8)) {
		w.step(deletes)
	}
	w.compareTxn()
	if w.rand.IntN(10) == 0 {
		w.txn.Abort()
		w.model = before
		return
	}
	w.keep(w.txn.Commit())
}

func (w *world) step(deletes int) {
	k := w.key()
	var got, want *thing
	var existed, wanted bool
	if w.rand.IntN(10) < deletes {
		got, existed = w.txn.Delete(k)
		want, wanted = w.model[k]
		delete(w.model, k)
	} else {
		o := w.thing(k)
		got, existed = w.txn.Set(k, o)
		want, wanted = w.model[k]
		w.model[k] = o
	}
	if got != want || existed != wanted {
		w.t.Fatalf("%v: the store had %v, want %v", k, got, want)
	}
}

func (w *world) compareTxn() {
	all := w.txn.All()
	space := w.txn.Namespace("ns1")
	before := w.model.sorted()
	inSpace := w.model.where(func(o *thing) bool { return o.Namespace == "ns1" })
	w.step(5) // must not be seen
	if !slices.Equal(objects(all), before) || !slices.Equal(objects(space), inSpace) {
		w.t.Fatal("the transaction iterates over other objects than the model")
	}
	if w.txn.Len() != len(w.model) {
		w.t.Fatalf("the transaction has %d objects, want %d", w.txn.Len(), len(w.model))
	}
}

// keep remembers a snapshot for later, and drops an old one.
func (w *world) keep(s *Snapshot[*thing]) {
	if w.rand.IntN(3) > 0 {
		return
	}
	values := map[*Index[*thing]][]string{}
	for _, ix := range w.indexes {
		values[ix] = slices.Collect(s.Values(ix))
	}
	w.kept = append(w.kept, keptSnapshot{s, maps.Clone(w.model), values})
	if len(w.kept) > 5 {
		w.kept = slices.Delete(w.kept, 0, 1)
	}
}

// verify compares all reads of a snapshot with a model.
func (w *world) verify(s *Snapshot[*thing], m model) {
	check(w.t, s)
	all := m.sorted()
	if !slices.Equal(objects(s.All()), all) || s.Len() != len(all) {
		w.t.Fatal("All differs from the model")
	}
	if !slices.EqualFunc(slices.Collect(s.Keys()), all, func(k object.Key, o *thing) bool { return k == object.KeyOf(o) }) {
		w.t.Fatal("Keys differs from the model")
	}
	space := fmt.Sprint("ns", w.rand.IntN(4))
	if !slices.Equal(objects(s.Namespace(space)), m.where(func(o *thing) bool { return o.Namespace == space })) {
		w.t.Fatalf("Namespace(%s) differs from the model", space)
	}
	if in := s.In(space); in.Len() != len(objects(s.Namespace(space))) || !slices.Equal(objects(in.All()), objects(s.Namespace(space))) {
		w.t.Fatalf("In(%s) differs from Namespace", space)
	}
	if in := s.In(""); in.Len() != len(all) || !slices.Equal(objects(in.All()), all) || !slices.Equal(objects(s.Namespace("")), all) {
		w.t.Fatal("no namespace is not all of them")
	}
	k := w.key()
	if got, ok := s.Get(k); got != m[k] || ok != (m[k] != nil) {
		w.t.Fatalf("Get(%v) = %v, want %v", k, got, m[k])
	}
	// Removed indexes, and ones newer than the snapshot, must be answered too.
	indexes := slices.Concat(w.indexes, w.removed)
	for _, ix := range indexes {
		w.verifyIndex(s, m, ix)
	}
	w.verifyIntersect(s, m, indexes)
}

func (w *world) verifyIndex(s *Snapshot[*thing], m model, ix *Index[*thing]) {
	set := map[string]bool{}
	for _, o := range m {
		for _, v := range ix.compute(o) {
			set[v] = true
		}
	}
	if got, want := slices.Collect(s.Values(ix)), slices.Sorted(maps.Keys(set)); !slices.Equal(got, want) {
		w.t.Fatalf("Values(%s) = %v, want %v", ix.name, got, want)
	}
	for _, v := range []string{"", "0", "3", "5", "9"} {
		want := m.where(func(o *thing) bool { return slices.Contains(ix.compute(o), v) })
		if got := slices.Collect(s.ByIndex(ix, v)); !slices.Equal(got, want) {
			w.t.Fatalf("ByIndex(%s, %s) has %d objects, want %d", ix.name, v, len(got), len(want))
		}
		if got := s.Count(ix, v); got != len(want) {
			w.t.Fatalf("Count(%s, %s) = %d, want %d", ix.name, v, got, len(want))
		}
	}
}

func (w *world) verifyIntersect(s *Snapshot[*thing], m model, indexes []*Index[*thing]) {
	if len(indexes) == 0 {
		return
	}
	matches := make([]Match[*thing], w.rand.IntN(4))
	for i := range matches {
		matches[i] = Match[*thing]{indexes[w.rand.IntN(len(indexes))], fmt.Sprint(w.rand.IntN(7))}
	}
	want := m.where(func(o *thing) bool {
		failed := func(x Match[*thing]) bool { return !slices.Contains(x.Index.compute(o), x.Value) }
		return !slices.ContainsFunc(matches, failed)
	})
	if got := slices.Collect(s.Intersect(matches...)); !slices.Equal(got, want) {
		w.t.Fatalf("Intersect(%v) has %d objects, want %d", matches, len(got), len(want))
	}
}

// verifyKept checks that the kept snapshots have not changed.
func (w *world) verifyKept() {
	for _, k := range w.kept {
		w.verify(k.snapshot, k.model)
		for ix, values := range k.values {
			if !slices.Equal(slices.Collect(k.snapshot.Values(ix)), values) {
				w.t.Fatal("the values of an old snapshot changed")
			}
		}
	}
}

func TestRandomOperations(t *testing.T) {
	testseed.Each(t, 6, func(t *testing.T, seed uint64) {
		t.Parallel()
		w := newWorld(t, seed)
		for range 30 {
			switch w.rand.IntN(12) {
			case 0:
				w.addIndex()
			case 1:
				w.removeIndex()
			default:
				w.batch()
			}
			w.verify(w.writer.Store().Snapshot(), w.model)
			checkFree(t, w.writer)
		}
		w.verifyKept()
	})
}

// TestDeepTree grows and shrinks a tree of several levels, and checks its shape and that of an old snapshot.
func TestDeepTree(t *testing.T) {
	const names = 4 * tree.MaxFill * tree.MaxFill
	seed := testseed.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	w := NewWriter[*thing](Options{})
	w.AddIndex("app", byLabel("app"))
	for round, share := range []int{100, 60, 30, 95, 50, 5, 1, 0} {
		before := w.Store().Snapshot()
		were := objects(before.All())
		txn := w.Begin()
		for _, i := range r.Perm(names) {
			k := object.Key{Namespace: "ns", Name: fmt.Sprint("n", i)}
			if r.IntN(100) < share {
				txn.Set(k, newThing(k.Namespace, k.Name, map[string]string{"app": fmt.Sprint((i + round) % 50)}))
			} else {
				txn.Delete(k)
			}
		}
		check(t, txn.Commit())
		checkFree(t, w)
		check(t, before)
		if !slices.Equal(objects(before.All()), were) {
			t.Fatal("an old snapshot changed")
		}
	}
	if n := w.Store().Snapshot().Len(); n != 0 {
		t.Fatalf("%d objects are left", n)
	}
}

// FuzzOperations reads each byte as one operation on a few hundred keys: the high bit commits, the next deletes.
func FuzzOperations(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0x81, 0x42, 0x41, 0x80})
	f.Add(slices.Repeat([]byte{7, 19, 33, 0x90, 0x47}, 60))
	f.Fuzz(func(t *testing.T, ops []byte) {
		w := NewWriter[*thing](Options{})
		w.AddIndex("app", byLabel("app"))
		m := model{}
		txn := w.Begin()
		old := w.Store().Snapshot()
		was := model{}
		for i, op := range ops {
			k := object.Key{Name: fmt.Sprint(int(op&0x3f) + i%7*64)}
			if op&0x40 != 0 {
				txn.Delete(k)
				delete(m, k)
			} else {
				o := newThing("", k.Name, map[string]string{"app": fmt.Sprint(i % 5)})
				txn.Set(k, o)
				m[k] = o
			}
			if op&0x80 != 0 {
				if s := txn.Commit(); i%2 == 0 {
					old, was = s, maps.Clone(m)
				}
				txn = w.Begin()
			}
		}
		now := txn.Commit()
		check(t, now)
		check(t, old)
		if !slices.Equal(objects(now.All()), m.sorted()) || !slices.Equal(objects(old.All()), was.sorted()) {
			t.Fatal("objects differ from the model")
		}
	})
}
