package patch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
)

// ErrBroken says that a patch is malformed or does not fit this base.
var ErrBroken = errors.New("patch: it does not fit its base")

// Reader reads a patch. After an error, which Err returns, it reads only ends.
type Reader struct {
	data []byte
	at   int // data[at:] is unread
	err  error
}

// NewReader returns a reader of patch p, and the number of bytes before the message that are copied from the base.
func NewReader(p []byte) (r *Reader, head int) {
	r = &Reader{data: p}
	return r, r.number()
}

// Err returns ErrBroken once something could not be read.
func (r *Reader) Err() error { return r.err }

// Fail makes the reader fail with ErrBroken.
func (r *Reader) Fail() { r.data, r.at, r.err = nil, 0, ErrBroken }

// Finish checks that the whole patch was read, and returns Err.
func (r *Reader) Finish() error {
	if r.at < len(r.data) {
		r.Fail()
	}
	return r.err
}

// Entry reads the header of an entry.
func (r *Reader) Entry() (number int32, a Action) {
	v := r.uvarint()
	if a = Action(v & 7); v == 0 {
		return 0, End
	}
	if a == End || v>>3 == 0 || v>>3 >= None {
		r.Fail()
		return 0, End
	}
	return int32(v >> 3), a
}

// Next returns what Entry will read, without reading it. The number is None at the end.
func (r *Reader) Next() (number int32, a Action) {
	next := *r
	if number, a = next.Entry(); a == End {
		number = None
	}
	return number, a
}

// Skip skips the rest of an entry.
func (r *Reader) Skip(a Action) { r.skip(a, 0) }

func (r *Reader) skip(a Action, depth int) {
	switch {
	case depth > maxDepth:
		r.Fail()
	case a == Set:
		r.Bytes()
	case a == Splice:
		r.skipText()
	case a == Digits:
		r.skipDigits()
	case a == Shift:
		r.uvarint()
	case a == Within:
		for _, inner := r.Entry(); inner != End; _, inner = r.Entry() {
			r.skip(inner, depth+1)
		}
	case a == List:
		r.number()
		for _, c := r.Element(); c != EndList; _, c = r.Element() {
			r.skipElement(c, depth)
		}
	}
}

func (r *Reader) skipElement(c Change, depth int) {
	switch c {
	case WithinElement:
		r.skip(Within, depth)
	case SpliceElement:
		r.skipText()
	case NewElement:
		r.Bytes()
	}
}

func (r *Reader) skipText() {
	r.number()
	r.number()
	r.Bytes()
}

func (r *Reader) skipDigits() {
	r.number()
	r.number()
	r.take(packedSize(r.number()))
}

// SkipSame skips the next entry of both readers if it is the same.
func (r *Reader) SkipSame(other *Reader) (same bool) {
	next := *r
	_, a := next.Entry()
	if next.skip(a, 0); next.err != nil || !bytes.HasPrefix(other.data[other.at:], r.data[r.at:next.at]) {
		return false
	}
	other.at += next.at - r.at
	*r = next
	return true
}

// Element reads the header of a list element.
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

// Count reads the length of a list. base is its length in the base; each element beyond that takes
// at least a byte of the patch.
func (r *Reader) Count(base int) int {
	n := r.number()
	if n > base+len(r.data)-r.at {
		r.Fail()
		return 0
	}
	return n
}

// Bytes reads a length and that many bytes. The result is a part of the patch.
func (r *Reader) Bytes() []byte { return r.take(r.number()) }

// take reads n bytes.
func (r *Reader) take(n int) []byte {
	if n > len(r.data)-r.at {
		r.Fail()
		return nil
	}
	from := r.at
	r.at += n
	return r.data[from:r.at:r.at]
}

// Fields reads a length and that many bytes, which must be fields with this number.
func (r *Reader) Fields(number int32) []byte {
	b := r.Bytes()
	if runEnd(b, number) < len(b) {
		r.Fail()
		return nil
	}
	return b
}

// Text reads a change of a text of length base: the lengths of the prefix and suffix to keep, and
// the bytes between them.
func (r *Reader) Text(base int) (before, behind int, between []byte) {
	before, behind = r.number(), r.number()
	between = r.Bytes()
	if before > base || behind > base-before {
		r.Fail()
		return 0, 0, nil
	}
	return before, behind, between
}

// Spliced is Text for an entry with the action Splice or Digits. between may be in scratch.
func (r *Reader) Spliced(a Action, base int, scratch *Scratch) (before, behind int, between []byte) {
	if a == Digits {
		return r.digits(base, scratch)
	}
	return r.Text(base)
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
	if i := r.at; uint(i) < uint(len(r.data)) && r.data[i] < 0x80 { // nearly all are like that
		r.at++
		return uint64(r.data[i])
	}
	return r.longUvarint()
}

func (r *Reader) longUvarint() uint64 {
	v, n := binary.Uvarint(r.data[r.at:])
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.at += n
	return v
}
