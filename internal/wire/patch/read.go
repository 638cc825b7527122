package patch

import (
	"encoding/binary"
	"errors"
	"math"
)

// ErrBroken says that a patch is none, or none of this base.
var ErrBroken = errors.New("patch: it does not fit its base")

// Reader reads a patch. After an error, which Err returns, it reads nothing but ends.
type Reader struct {
	rest []byte
	err  error
}

// NewReader returns a reader of a patch, and how many bytes before the message are those of the base.
func NewReader(p []byte) (r *Reader, head int) {
	r = &Reader{rest: p}
	return r, r.number()
}

// Err returns ErrBroken once something could not be read.
func (r *Reader) Err() error { return r.err }

// Fail makes the reader end with ErrBroken.
func (r *Reader) Fail() { r.rest, r.err = nil, ErrBroken }

// Finish checks that nothing is left, and returns Err.
func (r *Reader) Finish() error {
	if len(r.rest) > 0 {
		r.Fail()
	}
	return r.err
}

// Entry reads the beginning of an entry.
func (r *Reader) Entry() (number int32, a Action) {
	v := r.uvarint()
	if a = Action(v & 7); v == 0 {
		return 0, End
	}
	if a == End || a > List || v>>3 == 0 || v>>3 >= None {
		r.Fail()
		return 0, End
	}
	return int32(v >> 3), a
}

// Element reads the beginning of an element of a list.
func (r *Reader) Element() (gap int, c Change) {
	v := r.uvarint()
	if c = Change(v & 3); v == 0 {
		return 0, EndList
	}
	if c == EndList || v>>2 > math.MaxInt32 {
		r.Fail()
		return 0, EndList
	}
	return int(v >> 2), c
}

// Count reads the number of elements of a list, of which the base has so many. Each of the others takes a byte of the patch at least.
func (r *Reader) Count(base int) int {
	n := r.number()
	if n > base+len(r.rest) {
		r.Fail()
		return 0
	}
	return n
}

// Bytes reads bytes with their length. They are a part of the patch.
func (r *Reader) Bytes() []byte {
	n := r.number()
	if n > len(r.rest) {
		r.Fail()
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// Fields reads bytes with their length that are fields with this number.
func (r *Reader) Fields(number int32) []byte {
	b := r.Bytes()
	if runEnd(b, number) < len(b) {
		r.Fail()
		return nil
	}
	return b
}

// Text reads how many bytes of a text are those of the base before and behind what is between them. The base has so many.
func (r *Reader) Text(base int) (before, behind int, between []byte) {
	before, behind = r.number(), r.number()
	between = r.Bytes()
	if before > base || behind > base-before {
		r.Fail()
		return 0, 0, nil
	}
	return before, behind, between
}

// number reads a number that is small enough for a length.
func (r *Reader) number() int {
	v := r.uvarint()
	if v > math.MaxInt32 {
		r.Fail()
		return 0
	}
	return int(v)
}

func (r *Reader) uvarint() uint64 {
	if len(r.rest) > 0 && r.rest[0] < 0x80 {
		v := uint64(r.rest[0])
		r.rest = r.rest[1:]
		return v
	}
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}
