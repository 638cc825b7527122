package store

import (
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/tree"
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

// check fails the test if any invariant of the snapshot is broken.
func check(t testing.TB, s *Snapshot[*thing]) {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
}

// checkFree fails the test unless each slot ever used either belongs to one key or is free. No transaction may be open.
func checkFree(t testing.TB, w *Writer[*thing]) {
	t.Helper()
	seen := make([]int, w.used)
	w.store.Snapshot().keys.Scan(tree.Span{}, func(it *tree.Item) bool { seen[it.Slot]++; return true })
	for _, n := range w.free {
		seen[n]++
	}
	for n, times := range seen {
		if times != 1 {
			t.Fatalf("slot %d of %d is held or free %d times", n, w.used, times)
		}
	}
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
