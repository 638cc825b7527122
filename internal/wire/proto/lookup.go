package proto

import (
	"encoding/binary"
	"hash/maphash"
	"strings"
	"unsafe"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/share"
)

const (
	// stringShape is the shape of all strings.
	stringShape = 0
	// sweepEvery is the number of objects after which the table drops entries that were not found again.
	sweepEvery = 1 << 16
)

// table finds decoded values by their encoded bytes.
//
// Two values count as equal if their shapes and their bytes are. The bytes of strings are compared.
// For everything else 128 bits of two independently and unpredictably seeded hashes stand for the
// bytes: finding a collision by trying takes 2^64 objects.
type table struct {
	*share.Table[found]
	seed1, seed2 maphash.Seed
	checksummer  checksummer
	corrupted    []string // paths of values found to have been written to
}

// found is a value in the table. For a string, value points to its bytes and n is its length; for a
// list, value points to its first element and n is its length; for a map, value is the map; for all
// others, value points to a copy of the value.
type found struct {
	value unsafe.Pointer
	n     int
}

// missAction says what to do with a value that was not found.
type missAction uint8

const (
	decodeOnly     missAction = iota // decode it for this object only
	decodeAndStore                   // decode it so that it can be shared, and add it to the table
)

func newTable(maxBytes int) *table {
	return &table{share.NewTable[found](maxBytes, sweepEvery), maphash.MakeSeed(), maphash.MakeSeed(), newChecksummer(), nil}
}

// find looks up b for site s; l is the layout of values of the shape. If it is not there, the found
// value is nil; if the action is decodeAndStore, pass hash to add.
func (t *table) find(s *site, shape uint32, l *layout, b []byte) (f found, hash uint64, action missAction) {
	s.renew(t.Generation(), t.Batch())
	if s.last != nil && s.last.is(shape, b) {
		s.note(len(b), true, true)
		return s.last.found, 0, decodeOnly
	}
	hash = maphash.Bytes(t.seed1, b) ^ uint64(shape)*mixer
	e := t.Find(hash)
	if e == nil || e.Check != t.check(shape, b) || !t.isSound(s, e, l, len(b)) {
		return found{}, hash, t.miss(s, hash, b)
	}
	t.Use(e)
	s.note(len(b), true, true)
	s.remember(shape, b, e.Value)
	return e.Value, hash, decodeOnly
}

// stringCheck takes the place of the second hash for strings, whose bytes are compared.
const stringCheck = 0

// check returns the second hash of a value other than a string. It is odd, so that it is never stringCheck.
func (t *table) check(shape uint32, b []byte) uint64 {
	return (maphash.Bytes(t.seed2, b) + uint64(shape)*mixer) | 1
}

// isSound verifies an entry once per batch, and drops it if it was written to.
func (t *table) isSound(s *site, e *share.Entry[found], l *layout, size int) bool {
	switch {
	case t.IsChecked(e):
		return true
	case e.Memory == t.checksummer.sum(l, e.Value.value, e.Value.n, size):
		t.Checked(e)
		return true
	}
	t.Drop(e)
	t.corrupted = append(t.corrupted, s.path())
	return false
}

// findString is find for non-empty strings.
func (t *table) findString(s *site, b []byte) (text string, hash uint64, action missAction) {
	s.renew(t.Generation(), t.Batch())
	if text := s.recentString(b); text != "" {
		s.note(len(b), true, true)
		return text, 0, decodeOnly
	}
	hash = maphash.Bytes(t.seed1, b)
	e := t.Find(hash)
	// Safe because such an entry holds a string of n bytes, which nobody writes to.
	if e == nil || e.Check != stringCheck || unsafe.String((*byte)(e.Value.value), e.Value.n) != string(b) {
		return "", hash, t.miss(s, hash, b)
	}
	t.Use(e)
	s.note(len(b), true, true)
	text = unsafe.String((*byte)(e.Value.value), e.Value.n)
	s.rememberString(text)
	return text, hash, decodeOnly
}

// miss decides what to do with a value that is not in the table.
func (t *table) miss(s *site, hash uint64, b []byte) missAction {
	if s.rate.Mode == share.Direct {
		s.note(len(b), false, false)
		return decodeAndStore
	}
	known := t.SeenBefore(hash)
	s.note(len(b), known, false)
	if known {
		return decodeAndStore
	}
	return decodeOnly
}

// add stores a value under the hash that find returned for b. cost is the memory that the value keeps alive.
func (t *table) add(hash uint64, shape uint32, l *layout, b []byte, value unsafe.Pointer, n, cost int) {
	e := share.Entry[found]{Hash: hash, Check: stringCheck, Value: found{value, n}, Cost: uint32(cost)}
	if shape != stringShape {
		e.Check, e.Memory = t.check(shape, b), t.checksummer.sum(l, value, n, len(b))
	}
	t.Add(e)
}

var (
	// sharing is the policy for values that objects refer to.
	sharing = share.Policy{Direct: 4, Second: 1, First: 64, Window: 512, Sampled: 32}
	// sharingOften is the policy if decoding costs hardly more than a lookup: only values found
	// half of the time are looked up.
	sharingOften = share.Policy{Direct: share.Never, Second: 4, First: 512, Window: 512, Sampled: 32, Found: true}
	// copying is the policy for values held in place. The table needs a copy besides those in the
	// objects, so a lookup saves time but no memory: values are never stored at first sight.
	copying = share.Policy{Direct: share.Never, Second: 2, First: 64, Window: 512, Sampled: 32}
)

// site is one field on one path from the object's root. It counts how often its values are found.
type site struct {
	field  *field
	stats  wire.FieldStats
	rate   share.Rate
	depth  uint8 // 0 for values of the field itself, 1 for their elements
	policy *share.Policy
	// last and recent are valid only in the table's generation, and last only in the batch, in which they were set.
	generation, batch uint32
	last              *lastValue // nil until there is one
	recent            *[recentStrings]string
}

// recentStrings is the number of strings that a site remembers.
const recentStrings = 8

// lastBytes is the size of the largest part that a site remembers.
const lastBytes = 2 << 10

// lastValue is the last value of a site that was found in the table. Pods of one owner are adjacent
// in a list, so the next value is often the same, and comparing is cheaper than hashing.
type lastValue struct {
	found
	encoded []byte
	shape   uint32
}

// newSite returns a site for values that objects refer to. At first they are stored when seen for
// the second time: if there are few of them, storing each at first sight would take more memory
// than sharing saves.
func newSite(f *field, depth uint8, policy *share.Policy) *site {
	return &site{field: f, depth: depth, policy: policy, rate: share.Rate{Mode: share.Second}}
}

// path returns the path as it appears in statistics, such as "spec.containers[]".
func (s *site) path() string { return s.field.path() + strings.Repeat("[]", int(s.depth)) }

// is reports whether b encodes l.
func (l *lastValue) is(shape uint32, b []byte) bool {
	return l.shape == shape && l.value != nil && string(l.encoded) == string(b)
}

// renew drops what the site remembers if the table has begun another generation, or values must be verified again.
func (s *site) renew(generation, batch uint32) {
	if s.last != nil && (s.batch != batch || s.generation != generation) {
		s.last.value = nil
	}
	s.batch = batch
	if s.generation == generation {
		return
	}
	s.generation = generation
	if s.recent != nil {
		clear(s.recent[:])
	}
}

// remember makes f the last value.
func (s *site) remember(shape uint32, b []byte, f found) {
	if len(b) > lastBytes {
		return
	}
	if s.last == nil {
		s.last = new(lastValue)
	}
	*s.last = lastValue{f, append(s.last.encoded[:0], b...), shape}
}

// bytes is the memory of what the site remembers.
func (s *site) bytes() uint64 {
	n := 0
	if s.last != nil {
		n = cap(s.last.encoded)
	}
	if s.recent != nil {
		n += int(unsafe.Sizeof(*s.recent))
	}
	return uint64(n)
}

// recentString returns the string that b encodes if the site remembers it. b must not be empty.
func (s *site) recentString(b []byte) string {
	if s.recent == nil {
		return ""
	}
	if text := s.recent[recentSlot(b)]; text == string(b) {
		return text
	}
	return ""
}

// rememberString makes text, which must not be empty, a recent string, unless the site has seen too
// few for it to matter.
func (s *site) rememberString(text string) {
	if s.recent == nil {
		if s.stats.Lookups < fewLookups {
			return
		}
		s.recent = new([recentStrings]string)
	}
	s.recent[recentSlot(text)] = text
}

// fewLookups is the number of lookups before which a site remembers no strings.
const fewLookups = 64

func recentSlot[S string | []byte](text S) int {
	return (len(text) + int(text[len(text)-1])) % recentStrings
}

// shouldLookUp reports whether this value should be looked up.
func (s *site) shouldLookUp(b []byte) bool {
	return s.rate.Mode != share.Sampling || s.rate.Samples(class(b))
}

// class hashes the length and the last bytes, which is cheap and nearly always distinguishes values.
func class(b []byte) uint64 {
	h := uint64(len(b))
	if len(b) >= 8 {
		h ^= binary.LittleEndian.Uint64(b[len(b)-8:])
	} else if len(b) > 0 {
		h ^= uint64(b[0])<<8 | uint64(b[len(b)-1])<<16
	}
	return h * mixer >> 58
}

// note records a lookup of n bytes. repeated means that the value was seen before, hit that it was in the table.
func (s *site) note(n int, repeated, hit bool) {
	s.stats.Lookups++
	s.stats.Bytes += uint64(n)
	if hit {
		s.stats.Hits++
		s.stats.SharedBytes += uint64(n)
	}
	s.rate.Note(s.policy, hit || repeated && !s.policy.Found)
}
