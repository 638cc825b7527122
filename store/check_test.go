package store

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/object"
)

type thing = metav1.PartialObjectMetadata

func newThing(namespace, name string, labels map[string]string) *thing {
	return &thing{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
}

// commit commits a transaction that brings the store to a version.
func commit(txn *Txn[*thing], version string) *Snapshot[*thing] {
	txn.Advance("", version)
	return txn.Commit()
}

func byLabel(label string) func(*thing) []string {
	return func(o *thing) []string {
		if v, ok := o.Labels[label]; ok {
			return []string{v}
		}
		return nil
	}
}

// byAllLabels returns all label values of an object, some of them twice.
func byAllLabels(o *thing) []string {
	return slices.AppendSeq(slices.Sorted(maps.Values(o.Labels)), maps.Values(o.Labels))
}

// check fails the test if any invariant of the snapshot is broken: the shape of all trees, and that each index
// holds exactly the values that its function returns for the objects.
func check(t testing.TB, s *Snapshot[*thing]) {
	t.Helper()
	if err := checkTree(s.keys); err != nil {
		t.Fatalf("keys: %v", err)
	}
	checkSlots(t, s)
	checkLookup(t, s)
	for _, x := range s.indexes {
		if err := checkTree(x.tree()); err != nil {
			t.Fatalf("index %s: %v", x.index.name, err)
		}
		want := map[key]slot{}
		s.keys.scan(span{}, func(it *item) bool {
			h := s.hold(it.Key, it.slot)
			values, _ := x.index.values(h.Object())
			for _, v := range values {
				want[key{v, it.Key}] = it.slot
			}
			return true
		})
		got := map[key]slot{}
		x.tree().scan(span{}, func(it *item) bool { got[it.key] = it.slot; return true })
		if !maps.Equal(want, got) {
			t.Fatalf("index %s holds %v, want %v", x.index.name, got, want)
		}
		checkDigests(t, s, &x)
	}
}

// checkDigests fails the test unless the index has the digest of each object's values.
func checkDigests(t testing.TB, s *Snapshot[*thing], x *indexTree[*thing]) {
	t.Helper()
	s.keys.scan(span{}, func(it *item) bool {
		h := s.hold(it.Key, it.slot)
		values, _ := x.index.values(h.Object())
		if x.digests.get(it.slot) != x.index.digest(values) || x.stale {
			t.Fatalf("index %s has a wrong digest for %v", x.index.name, it.Key)
		}
		return true
	})
}

// checkSlots fails the test if an object is not in the slot of its key, or a slot without a key holds one.
func checkSlots(t testing.TB, s *Snapshot[*thing]) {
	t.Helper()
	held := 0
	for _, b := range s.objects.branches {
		for _, page := range b.pages {
			for i := 0; page != nil && i < len(page); i++ {
				if page[i] != nil {
					held++
				}
			}
		}
	}
	if s.folds != nil {
		held += checkFolds(t, s.folds)
	}
	if held != s.Len() {
		t.Fatalf("slots hold %d objects, there are %d keys", held, s.Len())
	}
	s.keys.scan(span{}, func(it *item) bool {
		h := s.hold(it.Key, it.slot)
		if o := h.Object(); o == nil || object.KeyOf(o) != it.Key || h.folded != nil && s.objects.get(it.slot) != nil {
			t.Fatalf("the slot of %v holds %v", it.Key, o)
		}
		return true
	})
}

// checkFolds fails the test if the folded objects are miscounted, and returns their number.
func checkFolds(t testing.TB, f *folds[*thing]) int {
	t.Helper()
	n := 0
	for _, b := range f.entries.branches {
		for _, page := range b.pages {
			for i := 0; page != nil && i < len(page); i++ {
				if page[i] != nil {
					n++
				}
			}
		}
	}
	if n != f.count {
		t.Fatalf("%d objects are folded, %d are counted", n, f.count)
	}
	return n
}

// checkLookup fails the test unless the lookup finds every key, and holds nothing else.
func checkLookup(t testing.TB, s *Snapshot[*thing]) {
	t.Helper()
	entries := 0
	for i := range s.lookup.size {
		if s.lookup.table.get(slot(i)) != 0 {
			entries++
		}
	}
	if entries != s.Len() || entries*4 > int(s.lookup.size)*3 {
		t.Fatalf("the lookup has %d entries in %d places for %d keys", entries, s.lookup.size, s.Len())
	}
	s.keys.scan(span{}, func(it *item) bool {
		if n, ok := s.quick(it.Key); !ok || n != it.slot {
			t.Fatalf("the lookup does not find %v", it.Key)
		}
		return true
	})
}

// checkFree fails the test unless each slot ever used either belongs to one key or is free. No transaction may be open.
func checkFree(t testing.TB, w *Writer[*thing]) {
	t.Helper()
	seen := make([]int, w.used)
	w.store.Snapshot().keys.scan(span{}, func(it *item) bool { seen[it.slot]++; return true })
	for _, n := range w.free {
		seen[n]++
	}
	for n, times := range seen {
		if times != 1 {
			t.Fatalf("slot %d of %d is held or free %d times", n, w.used, times)
		}
	}
}

func checkTree(root *node) error {
	if root == nil {
		return nil
	}
	depth, first := 0, root
	for ; !first.leaf(); depth++ {
		first = first.children[0].node
	}
	if !root.leaf() && len(root.children) < 2 {
		return fmt.Errorf("a root of one child")
	}
	c := shape{depth: depth}
	return c.check(root, 0, nil, nil, true)
}

// shape checks the shape of one tree.
type shape struct {
	depth int
	last  *key
}

func (s *shape) check(n *node, depth int, low, high *key, edge bool) error {
	if n.fill() > maxFill || n.fill() < 1 || (n.fill() < minFill && !edge) {
		return fmt.Errorf("node of %d entries, edge %v", n.fill(), edge)
	}
	if n.leaf() {
		return s.checkLeaf(n, depth, low, high)
	}
	size := 0
	for i := range n.children {
		l, h := low, high
		if i > 0 {
			k := n.children[i].low.key()
			l = &k
		}
		if i+1 < len(n.children) {
			k := n.children[i+1].low.key()
			h = &k
		}
		if err := s.check(n.children[i].node, depth+1, l, h, edge && i+1 == len(n.children)); err != nil {
			return err
		}
		size += n.children[i].node.size
	}
	if size != n.size {
		return fmt.Errorf("branch says %d items, has %d", n.size, size)
	}
	return nil
}

func (s *shape) checkLeaf(n *node, depth int, low, high *key) error {
	if depth != s.depth {
		return fmt.Errorf("leaf at depth %d, want %d", depth, s.depth)
	}
	if n.size != len(n.items) {
		return fmt.Errorf("leaf says %d items, has %d", n.size, len(n.items))
	}
	for i := range n.items {
		it := &n.items[i]
		switch {
		case s.last != nil && s.last.compare(&it.key) >= 0:
			return fmt.Errorf("%v comes after %v", it.key, *s.last)
		case low != nil && low.compare(&it.key) > 0:
			return fmt.Errorf("%v is below its bound %v", it.key, *low)
		case high != nil && high.compare(&it.key) <= 0:
			return fmt.Errorf("%v is not below the bound %v", it.key, *high)
		}
		s.last = &it.key
	}
	return nil
}

// model is a trivial implementation of a store.
type model map[object.Key]*thing

func (m model) sorted() []*thing {
	return slices.SortedFunc(maps.Values(m), func(a, b *thing) int { return object.KeyOf(a).Compare(object.KeyOf(b)) })
}

// where returns the objects that pass, sorted by key.
func (m model) where(pass func(*thing) bool) []*thing {
	return slices.DeleteFunc(m.sorted(), func(o *thing) bool { return !pass(o) })
}

// objects drops the keys of a sequence.
func objects(seq func(func(object.Key, *thing) bool)) []*thing {
	var all []*thing
	for _, o := range seq {
		all = append(all, o)
	}
	return all
}
