package store

import (
	"errors"
	"fmt"
	"maps"

	"github.com/tidings/tidings/internal/tree"
	"github.com/tidings/tidings/object"
)

// Check returns an error if an invariant of the snapshot is broken: the shape and order of its
// trees, an object under another key than its own, an index with other values than its function
// returns, a wrong count. It reads every object and calls every index function, which takes about
// as long as a first list; a store that works never returns an error. It is for tests and for the
// health check of a program that suspects its memory. A cached object that somebody has written to
// breaks invariants, too.
func (s *Snapshot[T]) Check() error {
	if err := tree.Check(s.keys); err != nil {
		return fmt.Errorf("store: keys: %w", err)
	}
	for _, part := range []func() error{s.checkSlots, s.checkLookup} {
		if err := part(); err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	for i := range s.indexes {
		if err := s.checkIndex(&s.indexes[i]); err != nil {
			return fmt.Errorf("store: index %s: %w", s.indexes[i].index.name, err)
		}
	}
	return nil
}

// checkSlots returns an error if an object is not in the slot of its key, or a slot without a key holds one.
func (s *Snapshot[T]) checkSlots() error {
	held := 0
	for o := range s.objects.All() {
		if !isNone(o) {
			held++
		}
	}
	if s.folds != nil {
		folded := 0
		for e := range s.folds.entries.All() {
			if e != nil {
				folded++
			}
		}
		if folded != s.folds.count {
			return fmt.Errorf("%d objects are folded, %d are counted", folded, s.folds.count)
		}
		held += folded
	}
	if held != s.Len() {
		return fmt.Errorf("slots hold %d objects, there are %d keys", held, s.Len())
	}
	return s.eachItem(s.checkSlot)
}

func (s *Snapshot[T]) checkSlot(it *tree.Item) error {
	h := s.hold(it.Key, it.Slot)
	if h.folded != nil && !isNone(s.objects.Get(it.Slot)) {
		return fmt.Errorf("%v is both open and folded", it.Key)
	}
	switch o := h.Object(); {
	case isNone(o):
		return fmt.Errorf("the slot of %v holds no object", it.Key)
	case object.KeyOf(o) != it.Key:
		return fmt.Errorf("the slot of %v holds %v", it.Key, object.KeyOf(o))
	}
	return nil
}

// checkLookup returns an error unless the lookup finds every key, and holds nothing else.
func (s *Snapshot[T]) checkLookup() error {
	entries := 0
	for e := range s.lookup.table.All() {
		if e != 0 {
			entries++
		}
	}
	if entries != s.Len() || entries*4 > int(s.lookup.size)*3 {
		return fmt.Errorf("the lookup has %d entries in %d places for %d keys", entries, s.lookup.size, s.Len())
	}
	return s.eachItem(func(it *tree.Item) error {
		if n, ok := s.quick(it.Key); !ok || n != it.Slot {
			return fmt.Errorf("the lookup does not find %v", it.Key)
		}
		return nil
	})
}

// checkIndex returns an error unless the index has, for every object, the values that its function
// returns, and their digest.
func (s *Snapshot[T]) checkIndex(x *indexTree[T]) error {
	if err := tree.Check(x.tree()); err != nil {
		return err
	}
	if x.stale {
		return errors.New("the digests are stale")
	}
	want, got := map[tree.SortKey]tree.Slot{}, map[tree.SortKey]tree.Slot{}
	err := s.eachItem(func(it *tree.Item) error {
		h := s.hold(it.Key, it.Slot)
		values, _ := x.index.values(h.Object())
		for _, v := range values {
			want[tree.SortKey{Value: v, Key: it.Key}] = it.Slot
		}
		if x.digests.Get(it.Slot) != x.index.digest(values) {
			return fmt.Errorf("the digest of %v is wrong", it.Key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	x.tree().Scan(tree.Span{}, func(it *tree.Item) bool { got[it.SortKey] = it.Slot; return true })
	if !maps.Equal(want, got) {
		return fmt.Errorf("it holds %v, want %v", got, want)
	}
	return nil
}

// eachItem calls check for the item of each object, and returns its first error.
func (s *Snapshot[T]) eachItem(check func(*tree.Item) error) (err error) {
	s.keys.Scan(tree.Span{}, func(it *tree.Item) bool {
		err = check(it)
		return err == nil
	})
	return err
}

// isNone reports whether a slot holds no object.
func isNone[T object.Object](o T) bool { return any(o) == any(*new(T)) }
