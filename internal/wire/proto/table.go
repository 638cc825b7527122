package proto

import (
	"hash/maphash"
	"unsafe"

	"github.com/tidings/tidings/internal/wire/share"
)

// stringShape is the shape of all strings.
const stringShape = 0

// table finds decoded values by their encoded bytes.
//
// Two values are taken for equal when their shape and their bytes are. For strings the bytes are compared. For
// everything else 128 bits of two independently and unguessably seeded hashes stand for them: finding two that
// collide by trying takes 2^64 objects.
type table struct {
	*share.Table[found]
	seed1, seed2 maphash.Seed
	summer       summer
	corrupted    []string // paths at which values came up that had been written to
}

// found is a value of the table. For a string, value points to its bytes and n is its length; for a list, value points to its
// first element and n is its length; for a map, value is the map; for all others, value points to a copy of the value.
type found struct {
	value unsafe.Pointer
	n     int
}

// verdict says what to do with a value that was not found.
type verdict uint8

const (
	keep  verdict = iota // decode it for this object only
	store                // decode it so that it can be shared, and add it
)

func newTable(maxBytes int) *table {
	return &table{share.NewTable[found](maxBytes), maphash.MakeSeed(), maphash.MakeSeed(), newSummer(), nil}
}

// find looks up b for site s; l is the layout of the values of the shape. Where it is not there, the found value is nil, and
// hash is to be given to add if the verdict is store.
func (t *table) find(s *site, shape uint32, l *layout, b []byte) (f found, hash uint64, v verdict) {
	s.renew(t.Generation(), t.Batch())
	if s.last.is(shape, b) {
		s.note(len(b), true, true)
		return s.last.found, 0, keep
	}
	hash = maphash.Bytes(t.seed1, b) ^ uint64(shape)*mixer
	e := t.Find(hash, shape)
	if e == nil || e.Check != maphash.Bytes(t.seed2, b) || !t.isSound(s, e, l) {
		return found{}, hash, t.miss(s, hash, b)
	}
	t.Use(e)
	s.note(len(b), true, true)
	s.remember(shape, b, e.Value)
	return e.Value, hash, keep
}

// isSound checks an entry once a batch, and drops it if it was written to.
func (t *table) isSound(s *site, e *share.Entry[found], l *layout) bool {
	switch {
	case t.IsChecked(e):
		return true
	case e.Memory == t.summer.values(l, e.Value.value, e.Value.n):
		t.Checked(e)
		return true
	}
	t.Drop(e)
	t.corrupted = append(t.corrupted, s.path)
	return false
}

// findString is find for strings that are not empty.
func (t *table) findString(s *site, b []byte) (text string, hash uint64, v verdict) {
	s.renew(t.Generation(), t.Batch())
	slot := s.slot(b)
	if *slot == string(b) {
		s.note(len(b), true, true)
		return *slot, 0, keep
	}
	hash = maphash.Bytes(t.seed1, b)
	e := t.Find(hash, stringShape)
	// Safe because an entry of this shape holds a string of n bytes, which nobody writes to.
	if e == nil || unsafe.String((*byte)(e.Value.value), e.Value.n) != string(b) {
		return "", hash, t.miss(s, hash, b)
	}
	t.Use(e)
	s.note(len(b), true, true)
	*slot = unsafe.String((*byte)(e.Value.value), e.Value.n)
	return *slot, hash, keep
}

// miss says what to do with a value that is not in the table.
func (t *table) miss(s *site, hash uint64, b []byte) verdict {
	if s.mode == direct {
		s.note(len(b), false, false)
		return store
	}
	known := t.SeenBefore(hash)
	s.note(len(b), known, false)
	if known {
		return store
	}
	return keep
}

// add stores a value under the hash that find returned for b. cost is the memory that the value keeps alive.
func (t *table) add(hash uint64, shape uint32, l *layout, b []byte, value unsafe.Pointer, n, cost int) {
	e := share.Entry[found]{Hash: hash, Shape: shape, Value: found{value, n}, Cost: uint32(cost)}
	if shape != stringShape {
		e.Check, e.Memory = maphash.Bytes(t.seed2, b), t.summer.values(l, value, n)
	}
	t.Add(e)
}
