package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/tree"
	"github.com/tidings/tidings/object"
)

// reporting returns a writer with an index by app that holds these objects, and the stray writes it reports.
func reporting(all ...*thing) (*Writer[*thing], *Index[*thing], *[]string) {
	var reports []string
	w := NewWriter[*thing](Options{OnStrayWrite: func(index string, k object.Key) { reports = append(reports, index+" "+k.String()) }})
	ix := w.AddIndex("app", byAllLabels)
	txn := w.Begin()
	txn.Load(all)
	txn.Commit()
	return w, ix, &reports
}

// TestStrayWrites writes to an indexed field of an object in the store, and then replaces or deletes it.
func TestStrayWrites(t *testing.T) {
	for _, before := range []string{"", "x"} {
		for _, written := range []string{"", "x", "y"} {
			for _, after := range []string{"deleted", "", "x", "y", "z"} {
				labels := func(app string) map[string]string {
					if app == "" {
						return nil
					}
					return map[string]string{"app": app}
				}
				o := newThing("", "b", labels(before))
				w, ix, reports := reporting(newThing("", "a", labels("x")), o, newThing("", "c", labels("y")))
				o.Labels = labels(written)
				txn := w.Begin()
				if after == "deleted" {
					txn.Delete(object.KeyOf(o))
				} else {
					txn.Set(object.KeyOf(o), newThing("", "b", labels(after)))
				}
				txn.Set(object.Key{Name: "d"}, newThing("", "d", labels("z"))) // takes the slot, if that is free
				s := txn.Commit()
				name := fmt.Sprintf("%q, written %q, then %q", before, written, after)
				check(t, s)
				wanted := 0
				if before != written && before != after && (before != "" || after != "deleted") {
					wanted = 1 // otherwise the index stays right
				}
				if len(*reports) != wanted || wanted > 0 && (*reports)[0] != "app b" {
					t.Errorf("%s: reports %q", name, *reports)
				}
				for _, v := range []string{"x", "y", "z"} {
					for o := range s.ByIndex(ix, v) {
						if o.Labels["app"] != v {
							t.Errorf("%s: %s is found under %s", name, o.Name, v)
						}
					}
				}
			}
		}
	}
}

// checkLeads fails the test if an index leads to an object other than the entry's, or to none.
func checkLeads(t testing.TB, s *Snapshot[*thing]) {
	t.Helper()
	for _, x := range s.indexes {
		x.tree().Scan(tree.Span{}, func(it *tree.Item) bool {
			if o := s.objects.Get(it.Slot); o == nil || object.KeyOf(o) != it.Key {
				t.Fatalf("index %s leads from %v to %v", x.index.name, it.SortKey, o)
			}
			return true
		})
	}
}

// TestRandomStrayWrites repeatedly writes to objects in the store. The indexes always lead to the
// right objects, and once all objects have been replaced, they are right again.
func TestRandomStrayWrites(t *testing.T) {
	testseed.Each(t, 5, func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		w, _, reports := reporting()
		w.AddIndex("other", byLabel("other"))
		label := func() map[string]string {
			return map[string]string{"app": strconv.Itoa(r.IntN(5)), "other": strconv.Itoa(r.IntN(5))}
		}
		strayed := 0
		for range 150 {
			txn := w.Begin()
			for range r.IntN(20) {
				k := object.Key{Name: fmt.Sprint("n", r.IntN(60))}
				if held, ok := txn.Get(k); ok && r.IntN(6) == 0 {
					held.Labels = label()
					strayed++
				} else if r.IntN(3) == 0 {
					txn.Delete(k)
				} else {
					txn.Set(k, newThing("", k.Name, label()))
				}
			}
			if r.IntN(8) == 0 {
				txn.Abort()
				continue
			}
			checkLeads(t, txn.Commit())
		}
		txn := w.Begin()
		for k := range txn.All() {
			txn.Set(k, newThing("", k.Name, label()))
		}
		check(t, txn.Commit())
		if strayed == 0 || len(*reports) == 0 {
			t.Errorf("%d stray writes, %d reports", strayed, len(*reports))
		}
	})
}

// TestNoStrayWrites has an index whose function returns the same values in a different order each
// time, some of them twice.
func TestNoStrayWrites(t *testing.T) {
	w, _, reports := reporting()
	few, many := map[string]string{}, map[string]string{}
	for i := range 100 {
		many[fmt.Sprint(i)] = fmt.Sprint(i / 2)
		few[fmt.Sprint(i%10)] = fmt.Sprint(i % 3)
	}
	for range 20 {
		txn := w.Begin()
		txn.Set(object.Key{Name: "few"}, newThing("", "few", few))
		txn.Set(object.Key{Name: "many"}, newThing("", "many", many))
		txn.Commit()
	}
	if len(*reports) > 0 {
		t.Errorf("reports %q", *reports)
	}
}

// TestCollision has two keys with equal hashes, which the lookup must distinguish.
func TestCollision(t *testing.T) {
	w := NewWriter[*thing](Options{})
	first, second := colliding(w.store.Snapshot().lookup)
	a, b := newThing(first.Namespace, first.Name, nil), newThing(second.Namespace, second.Name, nil)
	for _, order := range [][]*thing{{a, b}, {b, a}} {
		txn := w.Begin()
		for _, o := range order {
			if _, existed := txn.Set(object.KeyOf(o), o); existed {
				t.Fatal("one key is taken for the other")
			}
		}
		s := txn.Commit()
		check(t, s)
		for _, o := range order {
			if got, _ := s.Get(object.KeyOf(o)); got != o {
				t.Errorf("%s leads to %s", o.Name, got.Name)
			}
		}
		txn = w.Begin()
		if old, _ := txn.Delete(object.KeyOf(order[0])); old != order[0] {
			t.Error("another object is deleted")
		}
		s = txn.Commit()
		check(t, s)
		if got, _ := s.Get(object.KeyOf(order[1])); got != order[1] {
			t.Error("the other object is lost")
		}
		if _, ok := s.Get(object.KeyOf(order[0])); ok {
			t.Error("the other object is found under the key")
		}
		txn = w.Begin()
		txn.Delete(object.KeyOf(order[1]))
		check(t, txn.Commit())
		checkFree(t, w)
	}
}

// colliding returns two keys with the same hash.
func colliding(l lookup) (a, b object.Key) {
	seen := map[uint32]object.Key{}
	for i := 0; ; i++ {
		k := object.Key{Namespace: "ns", Name: strconv.Itoa(i)}
		h := l.hash(k)
		if other, ok := seen[h]; ok {
			return other, k
		}
		seen[h] = k
	}
}

// TestStaleIndexIsNotUsedAgain aborts a transaction that found a stray write: the next one must find it too.
func TestStaleIndexIsNotUsedAgain(t *testing.T) {
	o := newThing("", "a", map[string]string{"app": "x"})
	w, ix, reports := reporting(o)
	o.Labels = nil
	for range 2 {
		txn := w.Begin()
		txn.Delete(object.KeyOf(o))
		txn.Abort()
	}
	txn := w.Begin()
	txn.Delete(object.KeyOf(o))
	s := txn.Commit()
	check(t, s)
	if got := slices.Collect(s.ByIndex(ix, "x")); len(got) > 0 || len(*reports) != 3 {
		t.Errorf("%d objects, reports %q", len(got), *reports)
	}
}
