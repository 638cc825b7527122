package store

import (
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"github.com/tidings/tidings/internal/tree"
	"github.com/tidings/tidings/object"
)

// TestSlotsAreGivenBack removes most objects of a large store: the rest must not need the memory of all.
func TestSlotsAreGivenBack(t *testing.T) {
	w, ix := filled(3 * manySlots)
	full := w.Store().Snapshot()
	were := objects(full.All())
	left := 0
	for _, keep := range []int{5, 50, 5000} { // one in so many
		txn := w.Begin()
		left = 0
		for i, o := range were {
			if i%keep != 0 {
				txn.Delete(object.KeyOf(o))
			} else {
				left++
			}
		}
		s := txn.Commit()
		check(t, s)
		checkFree(t, w)
		if s.Len() != left || s.Count(ix, "app0") == 0 {
			t.Fatalf("%d objects are left, want %d", s.Len(), left)
		}
	}
	if most := tree.Slot(manySlots); w.used > most {
		t.Errorf("%d slots for %d objects, want at most %d", w.used, left, most)
	}
	check(t, full)
	if !slices.Equal(objects(full.All()), were) {
		t.Error("an old snapshot changed")
	}
}

// TestAbortGivesSlotsBack aborts transactions that took, freed and renumbered slots.
func TestAbortGivesSlotsBack(t *testing.T) {
	w, _ := filled(100)
	s := w.Store().Snapshot()
	for name, change := range map[string]func(*Txn[*thing]){
		"set":    func(txn *Txn[*thing]) { txn.Set(object.Key{Name: "x"}, newThing("", "x", nil)) },
		"delete": func(txn *Txn[*thing]) { txn.Delete(object.KeyOf(things(1)[0])) },
		"load": func(txn *Txn[*thing]) {
			for _, o := range things(100) {
				txn.Delete(object.KeyOf(o))
			}
			txn.Load(things(3))
		},
	} {
		txn := w.Begin()
		change(txn)
		txn.Abort()
		checkFree(t, w)
		check(t, w.Store().Snapshot())
		if w.Store().Snapshot() != s {
			t.Fatalf("%s: an aborted transaction was published", name)
		}
	}
	txn := w.Begin()
	for i := range 50 {
		txn.Set(object.Key{Name: fmt.Sprint(i)}, newThing("", fmt.Sprint(i), nil))
	}
	check(t, txn.Commit())
	checkFree(t, w)
}

// TestKeysKeepNoObjectAlive checks the memory of all strings in the trees: none may belong to an object.
func TestKeysKeepNoObjectAlive(t *testing.T) {
	loaded, _ := filled(500)
	set := NewWriter[*thing](Options{})
	set.AddIndex("app", byLabel("app"))
	txn := set.Begin()
	for _, o := range things(500) {
		txn.Set(object.KeyOf(o), o)
	}
	txn.Commit()
	for name, w := range map[string]*Writer[*thing]{"Load": loaded, "Set": set} {
		s := w.Store().Snapshot()
		owned := map[*byte]bool{}
		for _, o := range s.All() {
			for _, text := range []string{o.Namespace, o.Name, o.Labels["app"]} {
				owned[unsafe.StringData(text)] = true
			}
		}
		kept := func(it *tree.Item) bool {
			return owned[unsafe.StringData(it.Name)] || owned[unsafe.StringData(it.Namespace)] || it.Value != "" && owned[unsafe.StringData(it.Value)]
		}
		for _, root := range []*tree.Node{s.keys, s.indexes[0].root} {
			root.Scan(tree.Span{}, func(it *tree.Item) bool {
				if kept(it) {
					t.Fatalf("%s: %v has a string of an object", name, it.SortKey)
				}
				return true
			})
		}
	}
}

func TestNames(t *testing.T) {
	var n names
	var got, want []string
	for i := range 300 {
		s := fmt.Sprintf("%0*d", i, i)
		got, want = append(got, n.copy(s)), append(want, s)
	}
	if !slices.Equal(got, want) {
		t.Error("copies differ from what was copied")
	}
}

// TestRenamedObject makes a forbidden write to the name of an object in the store, which must still
// be found by its key.
func TestRenamedObject(t *testing.T) {
	w, _ := filled(100)
	o := things(100)[42]
	k := object.KeyOf(o)
	held, _ := w.Store().Snapshot().Get(k)
	held.Name = "renamed"
	if got, ok := w.Store().Snapshot().Get(k); !ok || got != held {
		t.Error("the object is not found by its key")
	}
	txn := w.Begin()
	if old, existed := txn.Set(k, o); !existed || old != held || txn.Len() != 100 {
		t.Error("the object is not replaced")
	}
	held.Name = o.Name
	check(t, txn.Commit())
	o.Name = "renamed"
	txn = w.Begin()
	if old, existed := txn.Delete(k); !existed || old != o {
		t.Error("the object is not deleted")
	}
	check(t, txn.Commit())
	checkFree(t, w)
}

// TestLookupWrapsAround fills a table with entries that all start near its end, and removes them in all orders.
func TestLookupWrapsAround(t *testing.T) {
	const n = 6
	for order := range 720 {
		l := lookup{size: minLookup}
		l.table.Set(1, minLookup-1, 0)
		for i := range uint32(n) {
			l.put(1, minLookup-3+i/2, tree.Slot(i))
		}
		left := []tree.Slot{0, 1, 2, 3, 4, 5}
		for code := order; len(left) > 0; code /= len(left) + 1 {
			at := code % len(left)
			l.removeAt(1, minLookup-3+uint32(left[at])/2, left[at])
			left = slices.Delete(left, at, at+1)
			for _, want := range left {
				if !l.has(minLookup-3+uint32(want)/2, want) {
					t.Fatalf("order %d: %d is lost", order, want)
				}
			}
		}
	}
}

// has reports whether a search finds the slot under the hash.
func (l *lookup) has(hash uint32, n tree.Slot) bool {
	for i := hash & (l.size - 1); ; i = l.next(i) {
		switch e := l.table.Get(tree.Slot(i)); {
		case e == 0:
			return false
		case tree.Slot(e)-1 == n:
			return true
		}
	}
}
