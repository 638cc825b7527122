package proto

import "github.com/tidings/tidings/internal/wire"

// mode says what is done with the values of one field.
type mode uint8

const (
	// direct looks a value up and stores it at first sight: at least half of the values are repeated.
	direct mode = iota
	// second looks a value up and stores it when it is seen for the second time.
	second
	// off looks up one in 64 values, chosen by their content, so that it shows when they begin to repeat.
	off
)

const (
	firstWindow   = 64  // lookups before a field is judged for the first time
	window        = 512 // lookups between two judgements
	sampledWindow = 32  // the same in mode off
	sampleOneIn   = 64
)

// site is one field on one path from the object's root. It counts how often its values are found and chooses the
// mode by it.
type site struct {
	path  string
	stats wire.FieldStats
	mode  mode
	// tried and found count the lookups since the last judgement; left counts down to the next one.
	tried, found, left uint32
}

func newSite(path string) *site { return &site{path: path, left: firstWindow} }

// wants reports whether this value shall be looked up.
func (s *site) wants(b []byte) bool {
	return s.mode != off || sampled(b)
}

// sampled chooses values by a cheap mix of their length and last bytes: equal values are chosen alike.
func sampled(b []byte) bool {
	h := uint64(len(b)) * 0x9e3779b97f4a7c15
	for _, c := range b[max(0, len(b)-8):] {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return h>>32%sampleOneIn == 0
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
	case s.found*2 >= s.tried:
		s.mode = direct
	case s.found*16 >= s.tried:
		s.mode = second
	default:
		s.mode = off
	}
	s.left, s.tried, s.found = window, 0, 0
	if s.mode == off {
		s.left = sampledWindow
	}
}
