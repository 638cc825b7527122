package store

import (
	"iter"

	"github.com/tidings/tidings/internal/tree"
	"github.com/tidings/tidings/object"
)

// maxIdle is the most passes that idle counts.
const maxIdle = 4

// idle counts, for each slot, in how many passes in a row its object was found unread and unchanged, up to maxIdle.
// written marks the slots that were written to since the last pass. Only passes count.
type idle struct {
	low, high, written marks
}

func (i *idle) grow(n tree.Slot) {
	i.low.grow(n)
	i.high.grow(n)
	i.written.grow(n)
}

// pass counts a pass, and returns how many in a row have found the object in the slot unused. used says that it was
// read since the last one.
func (i *idle) pass(n tree.Slot, used bool) int {
	if i.written.clear(n) || used {
		i.low.clear(n)
		i.high.clear(n)
		return 0
	}
	switch low, high := i.low.has(n), i.high.has(n); {
	case !low && !high:
		i.low.set(n)
		return 1
	case low && !high:
		i.low.clear(n)
		i.high.set(n)
		return 2
	case !low:
		i.low.set(n)
		return 3
	default:
		return maxIdle
	}
}

// PackIdle is PackCold for objects that were found unread and unchanged in this many passes in a row, this one
// included; at most maxIdle, and 0 disregards reads. It examines visit objects, or stops earlier after packing a few
// hundred. Waiting is how many of the examined objects are not due yet.
func (s *Store[T]) PackIdle(from object.Key, visit, passes int) (c *Cold[T], waiting int) {
	now := s.Snapshot()
	if now.folds == nil {
		return &Cold[T]{}, 0
	}
	c = &Cold[T]{folding: now.folds.folding}
	like := c.choose(now, from, visit, func(it *tree.Item) bool {
		if now.folds.unfoldable.has(it.Slot) {
			return false
		}
		if passes > 0 && now.folds.idle.pass(it.Slot, now.folds.read.clear(it.Slot)) < min(passes, maxIdle) {
			waiting++
			return false
		}
		return true
	})
	if len(c.keys)*2 > c.Visited {
		like = nil // neighbors
	}
	c.entries = c.folding.pack(c.objects, nil, like)
	return c, waiting
}

// ForgetIdle drops the objects that were kept open because they were read one by one, and were not read again in this
// many passes in a row, or have another state now. It returns how many are left.
func (s *Store[T]) ForgetIdle(passes int) (left int) {
	now := s.Snapshot()
	if now.folds == nil {
		return 0
	}
	return now.folds.recent.forget(func(r *recentObject[T]) bool {
		if e := now.folds.at(r.slot); e == nil || e.number() != r.entry.number() {
			return true
		}
		if now.folds.read.clear(r.slot) {
			r.idle = 0
			return false
		}
		r.idle++
		return r.idle >= passes
	})
}

// ForgetIdleTemplates drops the decoded templates of which nothing was made in this many passes in a row, and returns
// how many are left.
func (s *Store[T]) ForgetIdleTemplates(passes int) (left int) {
	now := s.Snapshot()
	if now.folds == nil {
		return 0
	}
	return now.folds.templates.forgetIdle(passes)
}

// Opening is a batch of folded objects that were opened, for Txn.Unfold.
type Opening[T object.Object] struct {
	// Next is the key to continue with; the zero key is the beginning.
	Next object.Key
	// Visited is the number of objects examined.
	Visited int

	keys    []object.Key
	entries []*folded[T]
	objects []T
}

// Len returns the number of objects.
func (o *Opening[T]) Len() int { return len(o.keys) }

// All iterates over the objects. It is part of object.Collection.
func (o *Opening[T]) All() iter.Seq2[object.Key, T] {
	return func(yield func(object.Key, T) bool) {
		for i, k := range o.keys {
			if !yield(k, o.objects[i]) {
				return
			}
		}
	}
}

// OpenFolded opens folded objects, starting at the key. It stops after a few hundred, after examining visit objects,
// or at the end. It changes nothing in the store.
func (s *Store[T]) OpenFolded(from object.Key, visit int) *Opening[T] {
	now, o := s.Snapshot(), &Opening[T]{}
	if now.folds == nil {
		return o
	}
	cursor := tree.NewCursor(now.keys)
	for cursor.Seek(&tree.SortKey{Key: from}); !cursor.Done(); cursor.Next() {
		it := cursor.Item()
		if len(o.keys) == packBatch || o.Visited == visit {
			o.Next = it.Key
			return o
		}
		o.Visited++
		e := now.folds.at(it.Slot)
		if e == nil {
			continue
		}
		if obj, ok := now.folds.open(it.Key, e, false); ok {
			o.keys, o.entries, o.objects = append(o.keys, it.Key), append(o.entries, e), append(o.objects, obj)
		}
	}
	return o
}

// Unfold makes the objects that are still folded open ones, and returns their number. Readers keep getting the same
// objects.
func (t *Txn[T]) Unfold(o *Opening[T]) (done int) {
	t.mustBeOpen("Unfold")
	for i, k := range o.keys {
		n, ok := t.next.quick(k)
		if !ok || t.next.folds.at(n) != o.entries[i] {
			continue
		}
		t.next.folds.put(t.id, n, nil)
		t.next.objects.Set(t.id, n, o.objects[i])
		t.next.folds.idle.written.set(n)
		t.next.folds.opened.nowStored(o.entries[i].number())
		done++
	}
	return done
}

// StartFolding makes the objects foldable in a store that has some already. Otherwise it is UseCodec.
func (w *Writer[T]) StartFolding() {
	now := w.store.Snapshot()
	if now.folds == nil {
		return
	}
	next := *now
	next.folds = now.folds.editable()
	next.folds.grow(w.used)
	w.store.publish(&next, nil)
}

// grow makes room for n slots in the marks.
func (f *folds[T]) grow(n tree.Slot) {
	f.read.grow(n)
	f.unfoldable.grow(n)
	f.idle.grow(n)
}

// UseFolding makes the objects of a Gathering foldable that began before the store had a codec.
func (g *Gathering[T]) UseFolding(s *Store[T]) {
	if now := s.Snapshot(); now.folds != nil {
		g.folding = now.folds.folding
	}
}
