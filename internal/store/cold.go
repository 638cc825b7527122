package store

import (
	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/tree"
	"github.com/tidings/tidings/object"
)

// Cold is a batch of objects that were not read recently, packed, for Txn.Fold.
type Cold[T object.Object] struct {
	// Next is the key to continue with; the zero key is the beginning.
	Next object.Key
	// Visited is the number of objects examined.
	Visited int

	folding *folding[T]
	keys    []object.Key
	objects []T          // open ones
	again   []*folded[T] // instead of objects: folded ones that were repacked
	entries []*folded[T]
}

// Len returns the number of objects that can be folded.
func (c *Cold[T]) Len() int { return len(c.keys) }

// Keys returns the keys of these objects.
func (c *Cold[T]) Keys() []object.Key { return c.keys }

// PackCold looks for objects that can be folded, starting at the key, and packs them. It stops
// after a few hundred, after examining visit objects, or at the end. Unless all is set, it skips
// objects read one by one since its last pass, this time. It changes nothing in the store, and may
// be called from any goroutine.
func (s *Store[T]) PackCold(from object.Key, visit int, all bool) *Cold[T] {
	now := s.Snapshot()
	if now.folds == nil {
		return &Cold[T]{}
	}
	c := &Cold[T]{folding: now.folds.folding}
	like := c.choose(now, from, visit, func(it *tree.Item) bool { return c.isCold(now, it, all) })
	if len(c.keys)*2 > c.Visited {
		like = nil // neighbors
	}
	c.entries = c.folding.pack(c.objects, nil, like)
	return c
}

// PackKeys is PackCold for the objects under these keys.
func (s *Store[T]) PackKeys(keys []object.Key, all bool) *Cold[T] {
	now := s.Snapshot()
	if now.folds == nil {
		return &Cold[T]{}
	}
	c := &Cold[T]{folding: now.folds.folding, Visited: len(keys)}
	like := []*fold.Dictionary{}
	for _, k := range keys {
		cursor := tree.NewCursor(now.keys)
		cursor.Seek(&tree.SortKey{Key: k})
		it := cursor.Item()
		if it == nil || it.Key != k || now.folds.at(it.Slot) != nil || !c.isCold(now, it, all) {
			continue
		}
		c.add(now, it)
		like = append(like, now.folds.dictionaryNear(&cursor))
	}
	c.entries = c.folding.pack(c.objects, nil, like)
	return c
}

// PackAgain repacks folded objects whose dictionary too few others need, which saves memory,
// starting at the key. It stops after a few hundred, after examining visit objects, or at the end.
// Like PackCold it changes nothing.
func (s *Store[T]) PackAgain(from object.Key, visit int) *Cold[T] {
	now := s.Snapshot()
	if now.folds == nil {
		return &Cold[T]{}
	}
	c := &Cold[T]{folding: now.folds.folding}
	cursor := tree.NewCursor(now.keys)
	for cursor.Seek(&tree.SortKey{Key: from}); !cursor.Done(); cursor.Next() {
		it := cursor.Item()
		if len(c.keys) == packBatch || c.Visited == visit {
			c.Next = it.Key
			return c
		}
		c.Visited++
		if e := now.folds.at(it.Slot); e != nil && c.folding.packer.Stale(e.packed) {
			c.addAgain(it.Key, e, now.folds.dictionaryNear(&cursor))
		}
	}
	return c
}

// PackTogether repacks folded neighbors, starting at the key, as if they had come in a list:
// objects that came one by one have less in common with their dictionary. It examines a few hundred
// objects, at most visit. The result is empty if repacking saves next to nothing. Like PackCold it
// changes nothing.
func (s *Store[T]) PackTogether(from object.Key, visit int) *Cold[T] {
	now := s.Snapshot()
	if now.folds == nil {
		return &Cold[T]{}
	}
	c := &Cold[T]{folding: now.folds.folding}
	scratch := bufferPool.Get().(*[]byte)
	defer func() { putBuffer(scratch) }()
	var ends []int
	cursor := tree.NewCursor(now.keys)
	*scratch = (*scratch)[:0]
	for cursor.Seek(&tree.SortKey{Key: from}); !cursor.Done(); cursor.Next() {
		it := cursor.Item()
		if len(c.keys) == packBatch || len(*scratch) >= packBytes || c.Visited == visit {
			c.Next = it.Key
			break
		}
		c.Visited++
		e := now.folds.at(it.Slot)
		if e == nil {
			continue
		}
		if longer, err := e.packed.Open(*scratch); err == nil { // otherwise its next reader reports it
			*scratch = longer
			ends, c.keys, c.again = append(ends, len(longer)), append(c.keys, it.Key), append(c.again, e)
		}
	}
	c.packTogether(slicesOf(*scratch, ends))
	return c
}

// packTogether repacks the objects, given their encodings, or drops them all if that saves next to nothing.
func (c *Cold[T]) packTogether(encoded [][]byte) {
	was := make([]fold.Packed, len(c.again))
	for i, e := range c.again {
		was[i] = e.packed
	}
	packed := c.folding.packer.PackSmaller(encoded, was)
	if packed == nil {
		c.keys, c.again = nil, nil
	}
	for i, p := range packed {
		c.entries = append(c.entries, c.again[i].packedAs(p))
	}
}

// addAgain repacks a folded object. One that cannot be opened stays as it is: its next reader reports it.
func (c *Cold[T]) addAgain(k object.Key, e *folded[T], like *fold.Dictionary) {
	_ = e.packed.View(func(data []byte) error {
		c.keys, c.again = append(c.keys, k), append(c.again, e)
		c.entries = append(c.entries, e.packedAs(c.folding.packer.Pack(data, like)))
		return nil
	})
}

// dictionaryNear returns the dictionary of a folded neighbor of the cursor's item, nil if there is none.
func (f *folds[T]) dictionaryNear(c *tree.Cursor) *fold.Dictionary {
	for it := range c.Around() {
		if e := f.at(it.Slot); e != nil && e.packed.Dictionary() != nil {
			return e.packed.Dictionary()
		}
	}
	return nil
}

// isCold reports whether the open object can be folded and was not read recently; all disregards reads.
func (c *Cold[T]) isCold(now *Snapshot[T], it *tree.Item, all bool) bool {
	return !now.folds.unfoldable.has(it.Slot) && (!now.folds.read.clear(it.Slot) || all)
}

func (c *Cold[T]) add(now *Snapshot[T], it *tree.Item) {
	c.keys = append(c.keys, it.Key)
	c.objects = append(c.objects, now.objects.Get(it.Slot))
}

// choose chooses the objects. It returns, for each, the dictionary of a folded neighbor, nil if there is none.
func (c *Cold[T]) choose(
	now *Snapshot[T], from object.Key, visit int, isCold func(*tree.Item) bool,
) (like []*fold.Dictionary) {
	var neighbor *fold.Dictionary
	cursor := tree.NewCursor(now.keys)
	for cursor.Seek(&tree.SortKey{Key: from}); !cursor.Done(); cursor.Next() {
		it := cursor.Item()
		if len(c.keys) == packBatch || c.Visited == visit {
			c.Next = it.Key
			return like
		}
		c.Visited++
		if e := now.folds.at(it.Slot); e != nil {
			if d := e.packed.Dictionary(); d != nil {
				neighbor = d
			}
			continue
		}
		if isCold(it) {
			c.add(now, it)
			like = append(like, neighbor)
		}
	}
	return like
}

// isCurrent reports whether the i-th object is the one in the slot.
func (c *Cold[T]) isCurrent(now *Snapshot[T], n tree.Slot, i int) bool {
	e := now.folds.at(n)
	if c.again != nil {
		return e == c.again[i]
	}
	return e == nil && any(now.objects.Get(n)) == any(c.objects[i])
}

// Fold folds the objects that are still current, and returns their number. The transaction must be committed.
func (t *Txn[T]) Fold(c *Cold[T]) int {
	t.mustBeOpen("Fold")
	done := 0
	for i, k := range c.keys {
		n, ok := t.next.quick(k)
		current := ok && c.isCurrent(t.next, n, i)
		switch e := c.entries[i]; {
		case !current && e != nil:
			c.folding.release(e.packed)
		case current && c.again != nil:
			t.next.folds.put(t.id, n, e)
			done++
		case current && e == nil:
			t.next.folds.unfoldable.set(n)
		case current:
			t.next.folds.put(t.id, n, e)
			t.next.objects.Set(t.id, n, *new(T))
			done++
		}
	}
	return done
}
