package proto

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"time"
	"unsafe"
)

// maxMatch bounds how deeply messages may nest in a part that is compared. A part that differs only far below is compared
// once more for each part around it that differs too, so that without a bound the time could be quadratic.
const maxMatch = 16

// place is where a field of a struct is.
type place struct{ offset, size uintptr }

// matches reports whether decoding b, regularly, gives exactly the message at p, down to what is nil and what is empty. Then
// the message may be taken over. False may also mean that it would take too long to find out: so it is for
// quantities, for types with an Unmarshal of their own, and for whatever no server writes. It reads only.
//
// It reads no maps either: should somebody write to an object that is to be read only, Go ends the program where a map
// is read and written at once. Maps are looked up in the table, which costs no more.
//
// As in decoder.message, p is a value of m.typ.
func (d *decoder) matches(m *message, p unsafe.Pointer, b []byte, depth int) bool {
	if depth > maxMatch {
		return false
	}
	var seen, set uint64
	for i := 0; i < len(b); {
		num, wire, next, err := tag(b, i)
		if err != nil {
			return false
		}
		f := m.field(num)
		if f == nil || f.op == skipOp {
			if i, err = skip(b, i); err != nil {
				return false
			}
			continue
		}
		if seen&f.bit != 0 {
			return false
		}
		seen |= f.bit
		if next < len(b) && b[next] == 0 && wire == int(f.zeroWire) {
			i = next + 1 // the zero value, as if the field were absent
			continue
		}
		set |= f.bit
		if i = d.matchField(f, unsafe.Add(p, f.offset), b, i, next, wire, depth); i == noMatch {
			return false
		}
	}
	return m.isZeroBut(set, p)
}

// noMatch is what the functions below return, which otherwise return the index behind the field.
const noMatch = -1

// matchField compares the field whose tag is b[start:i] with what is at p.
func (d *decoder) matchField(f *field, p unsafe.Pointer, b []byte, start, i, wire, depth int) (end int) {
	switch f.op {
	case varintOp:
		return matchVarint(f, p, b, i, wire)
	case varintPointerOp:
		return matchVarint(f, *(*unsafe.Pointer)(p), b, i, wire)
	case numbersOp, mapOp:
		return noMatch
	}
	if wire != bytesWire {
		return noMatch
	}
	switch f.op {
	case listOp:
		return d.matchList(f, (*header)(p), b, start, i, depth)
	case pointerOp:
		p = *(*unsafe.Pointer)(p)
	}
	from, end, err := prefixed(b, i)
	if err != nil || p == nil || !d.matchValue(f, p, b[from:end], depth) {
		return noMatch
	}
	return end
}

// matchValue compares one value that is encoded as bytes.
func (d *decoder) matchValue(f *field, p unsafe.Pointer, b []byte, depth int) bool {
	switch f.kind {
	case stringKind:
		return *(*string)(p) == string(b)
	case bytesKind:
		return sameBytes(*(*[]byte)(p), b)
	case timeKind, microTimeKind:
		return matchTime(f.kind, p, b)
	case messageKind:
		return !f.items && d.matches(d.plan(f), p, b, depth+1)
	}
	return false
}

// sameBytes reports whether decoding b gives old.
func sameBytes(old, b []byte) bool {
	return old != nil && len(old) == cap(old) && string(old) == string(b)
}

// matchTime compares a time. It is at p whatever it is wrapped in.
func matchTime(k kind, p unsafe.Pointer, b []byte) bool {
	t, err := parseTime(k, b)
	return err == nil && t == *(*time.Time)(p)
}

// matchVarint compares a number, at p if that is not nil.
func matchVarint(f *field, p unsafe.Pointer, b []byte, i, wire int) (end int) {
	v, end, err := uvarint(b, i)
	if err != nil || p == nil || wire != varintWire {
		return noMatch
	}
	same := false
	switch f.kind {
	case boolKind:
		same = *(*bool)(p) == (v != 0)
	case int32Kind:
		same = *(*int32)(p) == int32(v)
	default:
		same = *(*int64)(p) == int64(v)
	}
	if !same {
		return noMatch
	}
	return end
}

// matchList compares the run of elements whose first tag is b[start:i]. Should there be another run, the message that has
// the list is irregular.
func (d *decoder) matchList(f *field, slice *header, b []byte, start, i, depth int) (end int) {
	tag := b[start:i]
	if slice.len == 0 || slice.cap != slice.len {
		return noMatch
	}
	for k := range slice.len {
		if k > 0 {
			if !bytes.HasPrefix(b[i:], tag) {
				return noMatch
			}
			i += len(tag)
		}
		from, to, err := prefixed(b, i)
		if err != nil || !d.matchValue(f, unsafe.Add(slice.data, uintptr(k)*f.size), b[from:to], depth) {
			return noMatch
		}
		i = to
	}
	if bytes.HasPrefix(b[i:], tag) {
		return noMatch // there are more
	}
	return i
}

// isZeroBut reports whether all fields of the message at p are zero but those in set. That goes for fields that are trimmed
// or have no encoding too.
func (m *message) isZeroBut(set uint64, p unsafe.Pointer) bool {
	for rest := (uint64(1)<<len(m.places) - 1) &^ set; rest != 0; rest &= rest - 1 {
		at := m.places[bits.TrailingZeros64(rest)]
		if !isZero(unsafe.Slice((*byte)(unsafe.Add(p, at.offset)), at.size)) {
			return false
		}
	}
	return true
}

func isZero(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b) != 0 {
			return false
		}
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
