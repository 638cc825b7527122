package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
)

// arriving is a first list that arrives in a store while others write and read.
type arriving struct {
	t       *testing.T
	rand    *rand.Rand
	writer  *Writer[*thing]
	index   *Index[*thing]
	gather  *Gathering[*thing]
	model   model
	kept    []keptSnapshot
	readers sync.WaitGroup
}

// thing makes an object of three namespaces, with none, one or several values, among them some that
// hardly any other has.
func (a *arriving) thing(i int) *thing {
	o := newThing(fmt.Sprint("ns", i%3), fmt.Sprintf("n%05d", i/3), map[string]string{})
	for _, l := range []string{"app", "node", "tier"} {
		if a.rand.IntN(4) > 0 {
			o.Labels[l] = fmt.Sprint(a.rand.IntN(3 + a.rand.IntN(1000)))
		}
	}
	o.ResourceVersion = fmt.Sprint(i + 1)
	return o
}

// arrive puts the next objects of the list into the store.
func (a *arriving) arrive() {
	batch := a.gather.FoldArrivals()
	for k, o := range batch.All() {
		if a.model[k] == nil {
			a.model[k] = o
		}
	}
	txn := a.writer.Begin()
	txn.PutArrivals(a.gather, batch, "")
	a.seen(txn.Commit())
}

// write changes what another part of the collection might.
func (a *arriving) write(most int) {
	txn := a.writer.Begin()
	before := maps.Clone(a.model)
	for range 1 + a.rand.IntN(3) {
		o := a.thing(a.rand.IntN(most))
		if a.rand.IntN(2) == 0 {
			txn.Delete(object.KeyOf(o))
			delete(a.model, object.KeyOf(o))
		} else {
			txn.Set(object.KeyOf(o), o)
			a.model[object.KeyOf(o)] = o
		}
	}
	if a.rand.IntN(5) == 0 {
		txn.Abort()
		a.model = before
		return
	}
	a.seen(txn.Commit())
}

// seen reads a snapshot at once, from several goroutines, never, or later.
func (a *arriving) seen(s *Snapshot[*thing]) {
	if n := s.FoldStats().IndexEntries; n != a.entries() {
		a.t.Errorf("the index has %d entries, want %d", n, a.entries())
	}
	switch a.rand.IntN(8) {
	case 0:
		a.compare(s, a.model)
	case 1:
		want := maps.Clone(a.model)
		for range 3 {
			a.readers.Go(func() { a.compare(s, want) })
		}
	case 2:
		a.compare(s, a.model)
		fallthrough
	case 3:
		a.kept = append(a.kept, keptSnapshot{snapshot: s, model: maps.Clone(a.model)})
	}
}

func (a *arriving) entries() (n int) {
	for _, o := range a.model {
		n += len(slices.Compact(slices.Sorted(maps.Values(o.Labels))))
	}
	return n
}

// compare reads by all values.
func (a *arriving) compare(s *Snapshot[*thing], want model) {
	under := map[string][]*thing{}
	for _, o := range want.sorted() {
		for _, v := range slices.Compact(slices.Sorted(maps.Values(o.Labels))) {
			under[v] = append(under[v], o)
		}
	}
	if got := slices.Collect(s.Values(a.index)); !slices.Equal(got, slices.Sorted(maps.Keys(under))) {
		a.t.Errorf("the index has the values %q, want %q", got, slices.Sorted(maps.Keys(under)))
	}
	for v, objects := range under {
		got := slices.Collect(s.ByIndex(a.index, v))
		if !slices.Equal(got, objects) || s.Count(a.index, v) != len(objects) || !slices.Equal(slices.Collect(s.Intersect(Match[*thing]{a.index, v})), objects) {
			a.t.Errorf("under %q are %v, want %v", v, got, objects)
		}
	}
}

// TestPendingEntries has a first list arrive in batches, in order or not, between changes of its
// objects and reads of any snapshot: each has the entries of its own objects and no others.
func TestPendingEntries(t *testing.T) {
	testseed.Each(t, 2, func(t *testing.T, seed uint64) {
		a := &arriving{t: t, rand: rand.New(rand.NewPCG(seed, 0)), writer: NewWriter[*thing](Options{}), model: model{}}
		a.writer.UseCodec(thingCodec{}, reflect.TypeFor[*thing]())
		a.index = a.writer.AddIndex("all", byAllLabels)
		a.gather = a.writer.Store().Gather(0)
		n := 200 + a.rand.IntN(10_000)
		order := a.rand.Perm(n)
		if a.rand.IntN(2) == 0 {
			slices.Sort(order)
		}
		rarely := 1 + a.rand.IntN(20)
		for _, i := range order {
			a.gather.Add(a.thing(i))
			if a.gather.Waiting() == packBatch {
				a.arrive()
				if a.rand.IntN(rarely) == 0 {
					a.write(n)
				}
			}
		}
		for a.gather.Waiting() > 0 {
			a.arrive()
		}
		txn := a.writer.Begin()
		txn.Replace("", a.gather, fmt.Sprint(n+1), true)
		a.gather.Close()
		s := txn.Commit()
		a.model = model{}
		for k, o := range s.All() {
			a.model[k] = o
		}
		check(t, s)
		if len(s.indexes[0].pending) > 0 {
			t.Errorf("%d entries are pending at the end of the list", len(s.indexes[0].pending))
		}
		a.compare(s, a.model)
		for _, k := range a.kept {
			check(t, k.snapshot)
			a.compare(k.snapshot, k.model)
		}
		a.readers.Wait()
	})
}

// TestReadIndexHasNothingPending: who reads an index in each snapshot of a first list builds a tree
// once, not for each snapshot.
func TestReadIndexHasNothingPending(t *testing.T) {
	w, _ := newFolding(t, 0)
	index := w.Store().Snapshot().indexes[0].index
	g := w.Store().Gather(0)
	arrive := func(from int) *Snapshot[*thing] {
		for i := range packBatch {
			g.Add(plainThing(from + i))
		}
		txn := w.Begin()
		txn.PutArrivals(g, g.FoldArrivals(), "")
		return txn.Commit()
	}
	before, after := arrive(0), arrive(packBatch)
	for _, s := range []*Snapshot[*thing]{before, after} {
		if n := len(s.indexes[0].pending); n != s.Len() {
			t.Errorf("%d entries of %d are pending though nobody reads", n, s.Len())
		}
	}
	if n := before.Count(index, "0"); n != (packBatch+2)/3 {
		t.Errorf("the older snapshot has %d", n)
	}
	s := arrive(2 * packBatch)
	if n := len(s.indexes[0].pending); n > 0 {
		t.Errorf("%d entries are pending though somebody reads", n)
	}
	check(t, s)
	txn := w.Begin()
	txn.Replace("", g, "1000", true)
	g.Close()
	txn.Commit()
	if index.wanted.Load() {
		t.Error("the next list would go into the tree at once")
	}
}

// TestPendingEntriesOfStrayWrites rebuilds an index that has pending entries.
func TestPendingEntriesOfStrayWrites(t *testing.T) {
	w, _ := newFolding(t, 0)
	g := w.Store().Gather(0)
	for i := range 10 {
		g.Add(plainThing(i))
	}
	a := g.FoldArrivals()
	txn := w.Begin()
	txn.PutArrivals(g, a, "")
	txn.Commit()
	for _, o := range a.All() {
		o.Labels["app"] = "written"
		txn = w.Begin()
		txn.Set(object.KeyOf(o), newThing(o.Namespace, o.Name, map[string]string{"app": "new"}))
		check(t, txn.Commit())
		break
	}
}
