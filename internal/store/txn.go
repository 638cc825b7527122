package store

import (
	"iter"
	"slices"
	"unsafe"

	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/tree"
	"github.com/tidings/tidings/object"
)

// Txn is a transaction of a Writer: changes that become visible together. Its reads see its own
// writes. Only one goroutine at a time may use it. After Commit or Abort, write methods panic.
//
//  1. Get, Len, All, Namespace read.
//  2. Set, Delete, Load write single objects.
//  3. Replace makes a list the content of a namespace, and returns what that changes. Drop removes a namespace.
//  4. Track, Advance, Replace, Drop set the resource versions.
//  5. Commit or Abort ends it.
type Txn[T object.Object] struct {
	// writer is nil once the transaction is finished.
	writer *Writer[T]
	// next is the state to be published. The nodes in it with number id belong to this transaction alone.
	next *Snapshot[T]
	id   uint64
	// moved says that slots were taken or freed.
	moved bool
	// arriving says that PutArrivals is putting objects, so that indexes may postpone their entries.
	arriving bool
	// silent says that the changes of Replace and Drop are not needed.
	silent bool
	// removed is what Removed returns; nil unless LeaveFolded was called. mayOpen is how many
	// removed objects may still be opened then.
	removed *Removed[T]
	mayOpen int
	// contradicted is what Contradicted returns.
	contradicted object.Key
	// packed are the objects that PutCold has packed.
	packed []fold.Packed
}

// Silence makes Replace and Drop return nothing, so that no folded object is opened for their results.
func (t *Txn[T]) Silence() { t.silent = true }

// LeaveFolded makes Replace and Drop omit folded objects that the list lacks, or that are in the
// dropped namespace, from their results if there are many; Removed returns these. The transaction
// then opens at most this many of such objects in all.
func (t *Txn[T]) LeaveFolded(most int) { t.removed, t.mayOpen = new(Removed[T]), most }

// Removed returns the folded objects that Replace and Drop omitted since LeaveFolded, in key order for each call.
func (t *Txn[T]) Removed() *Removed[T] { return t.removed }

// Contradicted returns an object that a list passed to Replace had in an older state than the
// store, although the list was no older than the store's state. That cannot happen within one
// history. It returns false if there was none.
func (t *Txn[T]) Contradicted() (object.Key, bool) { return t.contradicted, t.contradicted.Name != "" }

// Rewritten records that the list passed to Replace is of another history than the store's state.
func (t *Txn[T]) Rewritten() { t.next.rewrites++ }

// Get returns the object with the key, or false if there is none.
func (t *Txn[T]) Get(k object.Key) (T, bool) { return t.next.Get(k) }

// Held returns the state of the object with the key, or false if there is none.
func (t *Txn[T]) Held(k object.Key) (Held[T], bool) { return t.next.Held(k) }

// Len returns the number of objects.
func (t *Txn[T]) Len() int { return t.next.Len() }

// All iterates over all objects as of the call, sorted by key. The transaction may continue to write meanwhile.
func (t *Txn[T]) All() iter.Seq2[object.Key, T] { return t.frozen().All() }

// Namespace iterates over the objects of one namespace as of the call, sorted by name; "" means
// all. The transaction may continue to write meanwhile.
func (t *Txn[T]) Namespace(namespace string) iter.Seq2[object.Key, T] {
	return t.frozen().Namespace(namespace)
}

// frozen returns the current state and gives the transaction a new number, so that the returned state never changes.
func (t *Txn[T]) frozen() *Snapshot[T] {
	if t.writer != nil {
		t.id = t.writer.nextID()
	}
	now := *t.next
	t.next.folds = now.folds.editable()
	if t.next.folds != nil {
		t.next.folds.gone = now.folds.gone
	}
	return &now
}

// Set stores the object under k, which must be its own key, and updates all indexes. It returns the
// object that was there before, if any.
func (t *Txn[T]) Set(k object.Key, o T) (old T, existed bool) {
	before, existed := t.Put(k, o)
	if existed {
		old = before.Object()
	}
	return old, existed
}

// Put is Set without opening the object that was there before.
func (t *Txn[T]) Put(k object.Key, o T) (old Held[T], existed bool) {
	return t.put(Held[T]{key: k, object: o})
}

// PutCold is Put for an object that is unlikely to be read soon: if its previous state is folded
// and was not read by key since, or if it is new, it is folded at once, and stays open only for
// those who hold it. The transaction keeps no reference to the bytes of e.
func (t *Txn[T]) PutCold(k object.Key, o T, e Encoding) (old Held[T], existed bool) {
	t.mustBeOpen("PutCold")
	f, h := t.next.folds, Held[T]{key: k, object: o}
	n, existed := t.findBefore(&h, e)
	before := f.at(n)
	if !existed || before != nil && !f.read.clear(n) {
		if packed := f.packOne(o, e, before); packed != nil {
			h.folding, h.folded = f.folding, packed
			t.packed = append(t.packed, packed.packed)
		}
	}
	return t.putAt(n, existed, h)
}

// put makes h the state of the object under its key.
func (t *Txn[T]) put(h Held[T]) (old Held[T], existed bool) {
	t.mustBeOpen("Set")
	n, existed := t.find(&h)
	return t.putAt(n, existed, h)
}

// find returns the slot of an object. If it is new, find allocates a slot and sets the key of h to
// that of the key tree.
func (t *Txn[T]) find(h *Held[T]) (n tree.Slot, existed bool) {
	if n, existed = t.next.quick(h.key); existed {
		return n, true
	}
	return t.place(h)
}

// findBefore is find for a new state of an object, decoded from e.
func (t *Txn[T]) findBefore(h *Held[T], e Encoding) (n tree.Slot, existed bool) {
	if e.before != nil {
		n, existed = t.next.likely(h.key)
		if existed && unsafe.Pointer(t.next.folds.at(n)) == e.before {
			return n, true
		}
	}
	return t.find(h)
}

// putAt makes h the state of the object in slot n, as found by find. If h is folded, its object may
// also be set, to the one that is open now.
func (t *Txn[T]) putAt(n tree.Slot, existed bool, h Held[T]) (old Held[T], had bool) {
	k := h.key
	if existed {
		old = t.next.hold(k, n)
	}
	if f := t.next.folds; f != nil {
		f.put(t.id, n, h.folded)
	}
	if h.folded == nil {
		if f := t.next.folds; f != nil {
			f.idle.written.set(n)
		}
		t.next.objects.Set(t.id, n, h.object)
	} else if !existed || old.folded == nil {
		t.next.objects.Set(t.id, n, *new(T))
	}
	t.reindex(&change[T]{key: k, slot: n, from: old, had: existed, to: h, has: true})
	return old, existed
}

// PutBack restores the state that Put returned, in the same transaction.
func (t *Txn[T]) PutBack(old Held[T]) {
	t.put(old)
	if old.folded != nil {
		gone := t.next.folds.gone
		i := slices.Index(gone, old.folded.packed)
		t.next.folds.gone = slices.Delete(slices.Clone(gone), i, i+1)
	}
}

// place finds the slot of the object in the key tree. If it is not there, place allocates a slot
// and uses the tree's copy of the key.
func (t *Txn[T]) place(h *Held[T]) (n tree.Slot, existed bool) {
	var p tree.Insertion
	var neighbor object.Key
	if it, found := p.Seek(t.next.keys, &tree.SortKey{Key: h.key}); found {
		return it.Slot, true
	} else if it != nil {
		neighbor = it.Key
	}
	t.moved = true
	h.key, n = t.writer.names.key(neighbor, h.key), t.writer.take()
	t.next.keys = p.Insert(t.id, tree.Item{SortKey: tree.SortKey{Key: h.key}, Slot: n})
	t.next.lookup.add(t.id, h.key, n, t.next.keys)
	return n, false
}

// Delete removes the object under the key from the store and all indexes. It returns the object, if there was one.
func (t *Txn[T]) Delete(k object.Key) (old T, existed bool) {
	before, existed := t.Remove(k)
	if existed {
		old = before.Object()
	}
	return old, existed
}

// Remove is Delete without opening the object.
func (t *Txn[T]) Remove(k object.Key) (old Held[T], existed bool) {
	t.mustBeOpen("Delete")
	it, existed := t.next.keys.Near(&tree.SortKey{Key: k})
	if !existed {
		return old, false
	}
	n := it.Slot
	old = t.next.hold(it.Key, n)
	t.reindex(&change[T]{key: it.Key, slot: n, from: old, had: true})
	t.next.keys = t.next.keys.Without(t.id, &tree.SortKey{Key: k})
	t.next.lookup.remove(t.id, k, n)
	t.next.objects.Set(t.id, n, *new(T))
	if f := t.next.folds; f != nil {
		f.put(t.id, n, nil)
		f.read.clear(n)
	}
	t.writer.free = append(t.writer.free, n)
	t.moved = true
	return old, true
}

// Load puts all objects under their own keys, like Set for each. If the store is empty and the
// objects are sorted by key without duplicates, it builds the trees in one pass, which is several
// times faster.
func (t *Txn[T]) Load(objects []T) {
	t.mustBeOpen("Load")
	if t.Len() > 0 || !t.build(openStates(objects), nil, t.writer.report) {
		for _, o := range objects {
			t.Put(object.KeyOf(o), o)
		}
	}
}

// openStates iterates over open objects with their own keys.
func openStates[T object.Object](objects []T) iter.Seq[Held[T]] {
	return func(yield func(Held[T]) bool) {
		for _, o := range objects {
			if !yield(Held[T]{key: object.KeyOf(o), object: o}) {
				return
			}
		}
	}
}

// build rebuilds the state from the objects alone, assigning slots in their order. If they are not
// sorted by key, it does nothing and returns false. known has their index values, and may be nil.
func (t *Txn[T]) build(objects iter.Seq[Held[T]], known knownValues[T], report func(*Index[T], object.Key, any)) bool {
	b := tree.NewBuilder(t.id)
	var places tree.Slots[T]
	var last object.Key
	var used tree.Slot
	folds := t.next.folds.empty()
	for h := range objects {
		if used > 0 && last.Compare(h.key) >= 0 {
			return false
		}
		last = t.writer.names.key(last, h.key)
		b.Add(tree.Item{SortKey: tree.SortKey{Key: last}, Slot: used})
		places.Set(t.id, used, h.object)
		if h.folded != nil {
			folds.put(t.id, used, h.folded)
		}
		used++
	}
	t.next.keys, t.next.objects, t.next.folds = b.Root(), places, folds
	t.next.lookup.fill(t.id, t.next.keys)
	t.writer.used, t.writer.free, t.moved = used, nil, true
	for i := range t.next.indexes {
		x := &t.next.indexes[i]
		x.fill(t.id, t.next, &t.writer.names, valuesOf(t.next, x.index, known), report)
	}
	return true
}

// reindex applies a change to all indexes. Its key is in the key tree, and is the tree's own copy
// if the object was added or removed.
func (t *Txn[T]) reindex(c *change[T]) {
	for i := range t.next.indexes {
		x := &t.next.indexes[i]
		after, reason := x.valuesAfter(c)
		if reason != nil {
			t.writer.report(x.index, c.key, reason)
		}
		digest := x.index.digest(after)
		if x.stale || c.had && x.digests.Get(c.slot) == digest {
			continue // Commit rebuilds it; or the tree has the object under these values
		}
		before, ok := x.valuesBefore(c)
		if !ok {
			x.stale = true
			t.writer.reportWritten(x.index, c.key)
			continue
		}
		x.digests.Set(t.id, c.slot, digest)
		if t.arriving && !c.had && !x.index.wanted.Load() {
			x.postpone(t.writer, t.id, tree.Item{SortKey: tree.SortKey{Key: c.key}, Slot: c.slot}, after)
		} else if len(before) > 0 || len(after) > 0 {
			x.settle(t.id, &t.writer.names)
			k := c.key
			if c.had && c.has {
				it, _ := t.next.keys.Near(&tree.SortKey{Key: k})
				k = it.Key
			}
			x.move(t.id, &t.writer.names, tree.Item{SortKey: tree.SortKey{Key: k}, Slot: c.slot}, before, after)
		}
	}
}

// refill rebuilds the stale indexes.
func (t *Txn[T]) refill() {
	for i := range t.next.indexes {
		if x := &t.next.indexes[i]; x.stale {
			x.fill(t.id, t.next, &t.writer.names, valuesOf(t.next, x.index, nil), reportedBefore)
		}
	}
}

// reportedBefore ignores panics of index functions for objects in the store: they were reported before.
func reportedBefore[T object.Object](*Index[T], object.Key, any) {}

// Commit publishes the changes as the newest snapshot and returns it. Objects and resource versions become visible
// together.
func (t *Txn[T]) Commit() *Snapshot[T] {
	t.mustBeOpen("Commit")
	t.refill()
	if t.sparse() {
		t.repack()
	}
	t.next.keepPending(t.writer.nextID)
	s, w, rewound := t.next, t.writer, t.writer.rewound
	t.moved = false
	if s.folds != nil {
		s.folds.grow(w.used)
		s.folds.release()
	}
	t.finish()
	w.store.publish(s, rewound)
	return s
}

// Abort discards the changes. It does nothing after Commit or Abort, so it may be deferred.
func (t *Txn[T]) Abort() {
	if t.writer == nil {
		return
	}
	for _, packed := range t.packed {
		t.next.folds.folding.release(packed)
	}
	t.finish()
}

// manySlots is the number of slots above which they are compacted if most are free.
const manySlots = 4096

// sparse reports whether three of four slots are free.
func (t *Txn[T]) sparse() bool {
	return t.moved && t.writer.used > manySlots && t.Len() < int(t.writer.used/4)
}

// repack gives the objects new slots, starting from the first.
func (t *Txn[T]) repack() {
	t.build(t.frozen().AllHeld(""), nil, reportedBefore)
}

// finish gives up the transaction's number and nodes, so that nothing can be changed through t any
// more, and recounts the slots if any were taken or freed for an unpublished change.
func (t *Txn[T]) finish() {
	w := t.writer
	w.unfinished, w.rewound = nil, nil
	if t.moved {
		w.recount()
	}
	*t = Txn[T]{next: &Snapshot[T]{}}
}

func (t *Txn[T]) mustBeOpen(call string) {
	if t.writer == nil {
		panic("store: " + call + " on a transaction that is finished")
	}
}
