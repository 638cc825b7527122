package proto

import (
	"encoding/binary"
	"unsafe"

	"github.com/tidings/tidings/internal/wire"
)

// mode says what is done with the values of one field.
type mode uint8

const (
	// direct looks a value up and stores it at first sight: at least half of the values are repeated.
	direct mode = iota
	// second looks a value up and stores it when it is seen for the second time: at least one in eight is repeated, or
	// one in four where the table would hold a copy. With less, the entries cost more than they save.
	second
	// off looks up one in 64 values, chosen by their content, so that it shows when they begin to repeat.
	off
)

const (
	firstWindow   = 64  // lookups before a field is judged for the first time
	window        = 512 // lookups between two judgements
	sampledWindow = 32  // the same in mode off
)

// site is one field on one path from the object's root. It counts how often its values are found and chooses the
// mode by it.
type site struct {
	path  string
	stats wire.FieldStats
	mode  mode
	// tried and found count the lookups since the last judgement; left counts down to the next one.
	tried, found, left uint32
	// copied is set where the table holds a copy of the value besides those in the objects, so that a lookup saves time
	// but no memory: such values are never stored at first sight.
	copied bool
	// generation is that of the table in which last and recent were set, batch that in which last was; from others they are void.
	generation, batch uint32
	last              lastValue
	recent            *[recentStrings]string
}

// recentStrings is the number of strings that a site remembers.
const recentStrings = 8

// lastBytes is the size of the largest part that a site remembers.
const lastBytes = 2 << 10

// lastValue is the last value of a site that came from the table. In a list the pods of one owner follow one another, so
// that often it is the next one too, and comparing is cheaper than hashing.
type lastValue struct {
	found
	encoded []byte
	shape   uint32
}

func newSite(path string) *site { return &site{path: path, left: firstWindow} }

// newCopySite is a site for values that are held in place.
func newCopySite(path string) *site {
	return &site{path: path, left: firstWindow, copied: true, mode: second}
}

// is reports whether l is what b encodes.
func (l *lastValue) is(shape uint32, b []byte) bool {
	return l.shape == shape && l.value != nil && string(l.encoded) == string(b)
}

// renew drops what the site remembers if the table has begun another generation, or values have to be checked again.
func (s *site) renew(generation, batch uint32) {
	if s.batch != batch {
		s.batch, s.last.value = batch, nil
	}
	if s.generation == generation {
		return
	}
	s.generation, s.last.value = generation, nil
	if s.recent != nil {
		clear(s.recent[:])
	}
}

// remember makes the value the last one.
func (s *site) remember(shape uint32, b []byte, f found) {
	if len(b) > lastBytes {
		return
	}
	s.last = lastValue{f, append(s.last.encoded[:0], b...), shape}
}

// bytes is the memory of what the site remembers.
func (s *site) bytes() uint64 {
	n := cap(s.last.encoded)
	if s.recent != nil {
		n += int(unsafe.Sizeof(*s.recent))
	}
	return uint64(n)
}

// slot is where the string that b encodes is remembered. b is not empty.
func (s *site) slot(b []byte) *string {
	if s.recent == nil {
		s.recent = new([recentStrings]string)
	}
	return &s.recent[(len(b)+int(b[len(b)-1]))%recentStrings]
}

// wants reports whether this value shall be looked up.
func (s *site) wants(b []byte) bool {
	return s.mode != off || sampled(b)
}

// sampled chooses values by a cheap mix of their length and last bytes: equal values are chosen alike.
func sampled(b []byte) bool {
	h := uint64(len(b))
	if len(b) >= 8 {
		h ^= binary.LittleEndian.Uint64(b[len(b)-8:])
	} else if len(b) > 0 {
		h ^= uint64(b[0])<<8 | uint64(b[len(b)-1])<<16
	}
	return h*0x9e3779b97f4a7c15>>58 == 0
}

// note records a lookup of n bytes. repeated means that the value was seen before, hit that it was in the table.
func (s *site) note(n int, repeated, hit bool) {
	s.stats.Lookups++
	s.stats.Bytes += uint64(n)
	if hit {
		s.stats.Hits++
		s.stats.SharedBytes += uint64(n)
	}
	s.tried++
	if repeated {
		s.found++
	}
	if s.left--; s.left == 0 {
		s.judge()
	}
}

func (s *site) judge() {
	switch {
	case s.found*2 >= s.tried && !s.copied:
		s.mode = direct
	case s.found*8 >= s.tried && !s.copied, s.found*4 >= s.tried:
		s.mode = second
	default:
		s.mode = off
	}
	s.left, s.tried, s.found = window, 0, 0
	if s.mode == off {
		s.left = sampledWindow
	}
}
