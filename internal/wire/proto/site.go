package proto

import (
	"encoding/binary"
	"unsafe"

	"github.com/tidings/tidings/internal/wire"
)

// mode says what is done with the values of one field.
type mode uint8

const (
	// direct looks a value up and stores it at first sight: at least half of the values are found.
	direct mode = iota
	// second looks a value up and stores it when it is seen for the second time: at least one in eight is found, or
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
	// tried counts the lookups since the last judgement, found those of them that speak for looking up; left counts
	// down to the next one.
	tried, found, left uint32
	// copied is set where the table holds a copy of the value besides those in the objects, so that a lookup saves time
	// but no memory: such values are never stored at first sight.
	copied bool
	// generation is that of the table in which recent and strings were set; from another one they are void.
	generation uint32
	recent     *[recentValues]recentValue
	strings    *[recentStrings]string
}

// recentValues and recentStrings are the numbers of values and strings that a site remembers. There are few, so that they
// stay in the processor's cache, which the table does not: a lookup there costs several misses.
const (
	recentValues  = 4
	recentStrings = 16
)

// recentBytes is the size of the largest part that a site remembers.
const recentBytes = 2 << 10

// recentValue is a value that came from the table. In a list the pods of one owner follow one another, so that often it
// is the next one too, or that of the same container in the next pod.
type recentValue struct {
	encoded []byte
	value   unsafe.Pointer
	n       int
	shape   uint32
}

func newSite(path string) *site { return &site{path: path, left: firstWindow} }

// newCopySite is a site for values that are held in place.
func newCopySite(path string) *site {
	return &site{path: path, left: firstWindow, copied: true, mode: second}
}

// is reports whether r is what b encodes.
func (r *recentValue) is(shape uint32, b []byte) bool {
	return r.shape == shape && r.value != nil && string(r.encoded) == string(b)
}

// renew drops what the site remembers if the table has begun another generation.
func (s *site) renew(generation uint32) {
	if s.generation == generation {
		return
	}
	s.generation = generation
	if s.recent != nil {
		for i := range s.recent {
			s.recent[i].value = nil
		}
	}
	if s.strings != nil {
		clear(s.strings[:])
	}
}

// value is where the value that b encodes is remembered, or nil for one that is empty or too large.
func (s *site) value(b []byte) *recentValue {
	if len(b) == 0 || len(b) > recentBytes {
		return nil
	}
	if s.recent == nil {
		s.recent = new([recentValues]recentValue)
	}
	return &s.recent[place(b)%recentValues]
}

// set makes r what b encodes.
func (r *recentValue) set(shape uint32, b []byte, value unsafe.Pointer, n int) {
	*r = recentValue{append(r.encoded[:0], b...), value, n, shape}
}

// bytes is the memory of what the site remembers.
func (s *site) bytes() uint64 {
	n := 0
	if s.recent != nil {
		n += int(unsafe.Sizeof(*s.recent))
		for i := range s.recent {
			n += cap(s.recent[i].encoded)
		}
	}
	if s.strings != nil {
		n += int(unsafe.Sizeof(*s.strings))
	}
	return uint64(n)
}

// slot is where the string that b encodes is remembered. b is not empty.
func (s *site) slot(b []byte) *string {
	if s.strings == nil {
		s.strings = new([recentStrings]string)
	}
	return &s.strings[place(b)%recentStrings]
}

// place spreads values by what differs in most neighbours: their length and last byte. b is not empty.
func place(b []byte) int { return len(b) + int(b[len(b)-1]) }

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

// note records a lookup of n bytes. repeated means that the value was seen before, hit that it was in the table. To come
// twice speaks for a value only in mode off, where none is stored: elsewhere one that comes twice, as a name that two
// containers of the same pod have, and never again, has cost an entry and saved nothing.
func (s *site) note(n int, repeated, hit bool) {
	s.stats.Lookups++
	s.stats.Bytes += uint64(n)
	if hit {
		s.stats.Hits++
		s.stats.SharedBytes += uint64(n)
	}
	s.tried++
	if hit || repeated && s.mode == off {
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
