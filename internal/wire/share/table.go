// Package share holds what the decoders of all encodings need to store equal parts of objects once: the table of shared
// values, and the policy that decides whether a decoder looks up a field's values at all.
package share

import (
	"math/bits"
)

const (
	defaultTableBytes = 64 << 20
	// entryOverhead is what an entry costs besides its value: the entry itself and its share of the index.
	entryOverhead = 72
	// MaxDoor is the maximum number of fingerprints that the doorkeeper remembers.
	MaxDoor = 1 << 16
	// doorShare bounds the doorkeeper of a small table: it may take 1/doorShare of the table's bytes in addition.
	doorShare = 4
	// firstIndex and firstDoor are the initial lengths of the index and the doorkeeper.
	firstIndex, firstDoor = 16, 64
)

// Table finds decoded values by the hashes of their encodings.
//
//	index    open addressing; a slot holds 32 bits of the hash and the number of an entry
//	entries  the values, dense, in order of arrival, in pages, so that growing copies nothing
//	door     the doorkeeper: fingerprints of values seen once, in small sets
//
// Memory is bounded by generations: a hit moves its entry into the current generation. When that
// generation holds half of the allowed bytes, or after a number of objects, all entries of older
// generations are dropped and a new one begins.
//
// Whoever holds an object could write to the values it shares, although that is forbidden. So each
// entry has a checksum of its value's memory, and whoever finds an entry must verify it before
// sharing the value for the first time in a batch.
type Table[V any] struct {
	index      []uint64
	entries    entries[V]
	door       []uint32
	max        uint64 // maximum bytes of the entries
	maxDoor    int    // a power of two
	sweepEvery int    // objects after which entries that were not found again are dropped
	old, young uint64 // bytes of the entries of earlier generations, and of the current one
	generation uint32
	objects    int    // decoded since the last sweep
	doorUse    uint32 // fingerprints written, including ones that replaced others
	batch      uint32 // counts the batches
}

// Entry is one value.
type Entry[V any] struct {
	// Hash and Check stand for the encoding and the kind of value. The table searches by Hash;
	// comparing Check is up to the caller.
	Hash, Check uint64
	Value       V
	Memory      uint64 // checksum of the memory that is writable through the value
	Cost        uint32 // bytes of memory that the value keeps alive; once stored, including the entry itself
	Object      uint32 // number of the object in which the value was first seen, if that matters
	generation  uint32
	batch       uint32 // the batch in which the value was last verified
}

// NewTable returns a table that may take maxBytes bytes, values included. 0 means enough for the
// distinct parts of a few hundred thousand objects. Every sweepEvery objects it drops entries that
// were not found again.
func NewTable[V any](maxBytes, sweepEvery int) *Table[V] {
	if maxBytes <= 0 {
		maxBytes = defaultTableBytes
	}
	door := max(firstDoor, maxBytes/doorShare/4)
	return &Table[V]{
		max: uint64(maxBytes), maxDoor: min(MaxDoor, 1<<(bits.Len(uint(door))-1)), sweepEvery: sweepEvery, index: make([]uint64, firstIndex),
	}
}

// Bytes is the memory that the table takes or keeps alive.
func (t *Table[V]) Bytes() uint64 { return t.old + t.young + uint64(len(t.door))*4 }

// Len is the number of entries.
func (t *Table[V]) Len() int { return t.entries.n }

// Generation is the number of the current generation. Entries that Find returned in another generation are invalid.
func (t *Table[V]) Generation() uint32 { return t.generation }

// Batch is the number of the current batch.
func (t *Table[V]) Batch() uint32 { return t.batch }

// BeginBatch starts a new batch, in which all values must be verified again.
func (t *Table[V]) BeginBatch() { t.batch++ }

// Find returns the entry with this hash, or nil. It is valid until the next Add or Decoded.
func (t *Table[V]) Find(hash uint64) *Entry[V] {
	mask := uint64(len(t.index) - 1)
	for i := hash & mask; t.index[i] != 0; i = (i + 1) & mask {
		slot := t.index[i]
		if slot>>32 != hash>>32 {
			continue
		}
		if e := t.entries.at(int(uint32(slot) - 1)); e.Hash == hash && e.Cost > 0 {
			return e
		}
	}
	return nil
}

// Use brings e into the current generation.
func (t *Table[V]) Use(e *Entry[V]) {
	if e.generation != t.generation {
		e.generation = t.generation
		t.old -= uint64(e.Cost)
		t.young += uint64(e.Cost)
	}
}

// IsChecked reports whether the value of e was verified in this batch.
func (t *Table[V]) IsChecked(e *Entry[V]) bool { return e.batch == t.batch }

// Checked records that the value of e was verified.
func (t *Table[V]) Checked(e *Entry[V]) { e.batch = t.batch }

// Drop removes a value that somebody has written to. The empty entry goes with the next sweep.
func (t *Table[V]) Drop(e *Entry[V]) {
	if e.generation == t.generation {
		t.young -= uint64(e.Cost)
	} else {
		t.old -= uint64(e.Cost)
	}
	*e = Entry[V]{generation: e.generation}
}

// SeenBefore remembers hash and reports whether it was called with it before. It may have forgotten.
func (t *Table[V]) SeenBefore(hash uint64) bool {
	if int(t.doorUse)*2 >= len(t.door) && len(t.door) < t.maxDoor {
		t.enlargeDoor()
	}
	print := uint32(hash>>32) | 1
	for _, p := range t.doorSet(print) {
		if p == print {
			return true
		}
	}
	t.remember(print)
	return false
}

// doorWays is the size of a fingerprint's set. With just one place, two values that repeat could
// keep evicting each other.
const doorWays = 4

// doorSet returns the set that a fingerprint belongs to.
func (t *Table[V]) doorSet(print uint32) []uint32 {
	set := int(print>>1) & (len(t.door)/doorWays - 1)
	return t.door[set*doorWays : (set+1)*doorWays]
}

// remember adds a fingerprint to its set, evicting the oldest.
func (t *Table[V]) remember(print uint32) {
	set := t.doorSet(print)
	copy(set[1:], set)
	set[0] = print
	t.doorUse++
}

func (t *Table[V]) enlargeDoor() {
	before := t.door
	t.door, t.doorUse = make([]uint32, min(max(firstDoor, 2*len(before)), t.maxDoor)), 0
	for _, print := range before {
		if print != 0 {
			t.remember(print)
		}
	}
}

// Add stores a value that Find did not find. Very large values are left out.
func (t *Table[V]) Add(e Entry[V]) {
	cost := uint64(e.Cost) + entryOverhead
	if cost > t.max/8 {
		return
	}
	if t.young+cost > t.max/2 {
		t.sweep()
	}
	e.Cost, e.generation, e.batch = uint32(cost), t.generation, t.batch
	t.entries.add(e)
	t.young += cost
	if t.entries.n*4 > len(t.index)*3 {
		t.reindex()
		return
	}
	t.link(t.entries.n - 1)
}

// link puts entry n into the index.
func (t *Table[V]) link(n int) {
	hash, mask := t.entries.at(n).Hash, uint64(len(t.index)-1)
	i := hash & mask
	for t.index[i] != 0 {
		i = (i + 1) & mask
	}
	t.index[i] = hash>>32<<32 | uint64(n+1)
}

// reindex rebuilds the index to fit the entries.
func (t *Table[V]) reindex() {
	t.index = make([]uint64, max(firstIndex, 1<<bits.Len(uint(t.entries.n*3/2))))
	for n := range t.entries.n {
		if t.entries.at(n).Cost > 0 { // the hash of a dropped entry is lost, so all of them would crowd one place
			t.link(n)
		}
	}
}

// Decoded counts another decoded object, which may cause a sweep.
func (t *Table[V]) Decoded() {
	if t.objects++; t.objects >= t.sweepEvery {
		t.sweep()
	}
}

// sweep drops the entries of earlier generations and begins a new one.
func (t *Table[V]) sweep() {
	var kept entries[V]
	t.old = 0
	for i := range t.entries.n {
		if e := t.entries.at(i); e.generation == t.generation && e.Cost > 0 {
			kept.add(*e)
			t.old += uint64(e.Cost)
		}
	}
	t.entries, t.young = kept, 0
	t.generation++
	t.objects = 0
	t.reindex()
}

// entries is a growing array in pages. The first page grows too, because most tables never fill it.
type entries[V any] struct {
	pages [][]Entry[V]
	n     int
}

// The number of entries of a page, and the initial size of the first page.
const (
	pageEntries  = 256
	firstEntries = 4
)

func (e *entries[V]) at(i int) *Entry[V] { return &e.pages[i/pageEntries][i%pageEntries] }

func (e *entries[V]) add(one Entry[V]) {
	switch {
	case e.n == 0:
		e.pages = [][]Entry[V]{make([]Entry[V], firstEntries)}
	case e.n < pageEntries && e.n == len(e.pages[0]):
		e.pages[0] = append(make([]Entry[V], 0, 2*e.n), e.pages[0]...)[:2*e.n]
	case e.n == len(e.pages)*pageEntries:
		e.pages = append(e.pages, make([]Entry[V], pageEntries))
	}
	*e.at(e.n) = one
	e.n++
}
