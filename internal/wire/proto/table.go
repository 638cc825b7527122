package proto

import (
	"hash/maphash"
	"math/bits"
	"unsafe"
)

const (
	defaultTableBytes = 64 << 20
	// entryOverhead is what an entry costs besides its value: itself and its share of the index.
	entryOverhead = 64
	// sweepEvery is the number of objects after which what was not found again is dropped.
	sweepEvery = 1 << 16
	// maxDoor is the number of fingerprints that the doorkeeper remembers at most.
	maxDoor = 1 << 16
	// stringShape is the shape of all strings.
	stringShape = 0
)

// table finds decoded values by their encoded bytes.
//
//	index    open addressing; a slot holds 32 bits of the hash and the number of an entry
//	entries  the values, densely, in order of arrival, in pages, so that growing copies nothing
//	door     fingerprints of values seen once, direct mapped; what is seen for the second time is let in
//
// Two values are taken for equal when their shape and their bytes are. For strings the bytes are compared. For
// everything else 128 bits of two independently and unguessably seeded hashes stand for them: finding two that
// collide by trying takes 2^64 objects.
//
// Memory is bounded by generations: a hit brings its entry into the current generation. When that holds half of the
// allowed bytes, or after sweepEvery objects, all entries of older generations are dropped and a new one begins.
type table struct {
	seed1, seed2 maphash.Seed
	index        []uint64
	entries      entries
	door         []uint32
	max          uint64 // bytes allowed
	old, young   uint64 // bytes of the entries of earlier generations, and of the current one
	generation   uint32
	objects      int    // decoded since the last sweep
	doorUse      uint32 // fingerprints written since the door was last enlarged
}

// entry is one value. For a string, value points to its bytes and n is its length; for a list, value points to its first
// element and n is its length; for a map, value is the map; for all others, value points to a copy of the value.
// Values are never written to once they are here.
type entry struct {
	hash1, hash2 uint64
	value        unsafe.Pointer
	n            int
	cost         uint32
	shape        uint32
	generation   uint32
}

// verdict says what to do with a value that was not found.
type verdict uint8

const (
	keep  verdict = iota // decode it for this object only
	store                // decode it so that it can be shared, and add it
)

func newTable(maxBytes int) *table {
	if maxBytes <= 0 {
		maxBytes = defaultTableBytes
	}
	return &table{seed1: maphash.MakeSeed(), seed2: maphash.MakeSeed(), max: uint64(maxBytes), index: make([]uint64, 64)}
}

// bytes is the memory that the table takes or keeps alive.
func (t *table) bytes() uint64 { return t.old + t.young + uint64(len(t.door))*4 }

// found is a value from the table; see entry for what value and n mean.
type found struct {
	value unsafe.Pointer
	n     int
}

// find looks up b for site s. Where it is not there, the found value is nil, and hash is to be given to add if the
// verdict is store.
func (t *table) find(s *site, shape uint32, b []byte) (f found, hash uint64, v verdict) {
	if s.renew(t.generation); s.last.is(shape, b) {
		s.note(len(b), true, true)
		return found{s.last.value, s.last.n}, 0, keep
	}
	hash = maphash.Bytes(t.seed1, b) ^ uint64(shape)*0x9e3779b97f4a7c15
	e := t.probe(hash, shape, b)
	if e == nil {
		return found{}, hash, t.miss(s, hash, b)
	}
	t.touch(e)
	s.note(len(b), true, true)
	s.remember(shape, b, e.value, e.n)
	return found{e.value, e.n}, hash, keep
}

// findString is find for strings that are not empty.
func (t *table) findString(s *site, b []byte) (text string, hash uint64, v verdict) {
	s.renew(t.generation)
	slot := s.slot(b)
	if *slot == string(b) {
		s.note(len(b), true, true)
		return *slot, 0, keep
	}
	hash = maphash.Bytes(t.seed1, b)
	e := t.probe(hash, stringShape, b)
	if e == nil {
		return "", hash, t.miss(s, hash, b)
	}
	t.touch(e)
	s.note(len(b), true, true)
	// Safe because an entry of this shape holds a string of e.n bytes, which nobody writes to.
	*slot = unsafe.String((*byte)(e.value), e.n)
	return *slot, hash, keep
}

// miss says what to do with a value that is not in the table.
func (t *table) miss(s *site, hash uint64, b []byte) verdict {
	if s.mode == direct {
		s.note(len(b), false, false)
		return store
	}
	known := t.knock(hash)
	s.note(len(b), known, false)
	if known {
		return store
	}
	return keep
}

// touch brings e into the current generation.
func (t *table) touch(e *entry) {
	if e.generation != t.generation {
		e.generation = t.generation
		t.old -= uint64(e.cost)
		t.young += uint64(e.cost)
	}
}

func (t *table) probe(hash uint64, shape uint32, b []byte) *entry {
	mask := uint64(len(t.index) - 1)
	for i := hash & mask; t.index[i] != 0; i = (i + 1) & mask {
		slot := t.index[i]
		if slot>>32 != hash>>32 {
			continue
		}
		e := t.entries.at(int(uint32(slot) - 1))
		if e.hash1 != hash || e.shape != shape {
			continue
		}
		if shape == stringShape {
			if unsafe.String((*byte)(e.value), e.n) == string(b) {
				return e
			}
		} else if e.hash2 == maphash.Bytes(t.seed2, b) {
			return e
		}
	}
	return nil
}

// knock reports whether a value with this hash was here before, and remembers it.
func (t *table) knock(hash uint64) bool {
	if int(t.doorUse) >= len(t.door) && len(t.door) < maxDoor {
		t.door = make([]uint32, max(256, 4*len(t.door)))
		t.doorUse = 0
	}
	print := uint32(hash>>32) | 1
	slot := &t.door[hash&uint64(len(t.door)-1)]
	if *slot == print {
		return true
	}
	*slot = print
	t.doorUse++
	return false
}

// add stores a value under the hash that find returned for b. cost is the memory that the value keeps alive.
func (t *table) add(hash uint64, shape uint32, b []byte, value unsafe.Pointer, n, cost int) {
	cost += entryOverhead
	if uint64(cost) > t.max/8 {
		return
	}
	if t.young+uint64(cost) > t.max/2 {
		t.sweep()
	}
	e := entry{hash1: hash, value: value, n: n, cost: uint32(cost), shape: shape, generation: t.generation}
	if shape != stringShape {
		e.hash2 = maphash.Bytes(t.seed2, b)
	}
	t.entries.add(e)
	t.young += uint64(cost)
	if t.entries.n*4 > len(t.index)*3 {
		t.reindex()
		return
	}
	t.link(t.entries.n - 1)
}

// link puts entry n into the index.
func (t *table) link(n int) {
	hash, mask := t.entries.at(n).hash1, uint64(len(t.index)-1)
	i := hash & mask
	for t.index[i] != 0 {
		i = (i + 1) & mask
	}
	t.index[i] = hash>>32<<32 | uint64(n+1)
}

// reindex makes the index fit the entries.
func (t *table) reindex() {
	t.index = make([]uint64, max(64, 1<<bits.Len(uint(t.entries.n*3/2))))
	for n := range t.entries.n {
		t.link(n)
	}
}

// decoded tells the table that another object was decoded.
func (t *table) decoded() {
	if t.objects++; t.objects >= sweepEvery {
		t.sweep()
	}
}

// sweep drops the entries of earlier generations and begins a new one.
func (t *table) sweep() {
	var kept entries
	for i := range t.entries.n {
		if e := t.entries.at(i); e.generation == t.generation {
			kept.add(*e)
		}
	}
	t.entries = kept
	t.old, t.young = t.young, 0
	t.generation++
	t.objects = 0
	t.reindex()
}

// entries is a growing array in pages.
type entries struct {
	pages [][]entry
	n     int
}

// pageEntries is the number of entries of a page, which makes it 12 KiB.
const pageEntries = 256

func (e *entries) at(i int) *entry { return &e.pages[i/pageEntries][i%pageEntries] }

func (e *entries) add(one entry) {
	if e.n == len(e.pages)*pageEntries {
		e.pages = append(e.pages, make([]entry, pageEntries))
	}
	*e.at(e.n) = one
	e.n++
}
