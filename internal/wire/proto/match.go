package proto

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"reflect"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxMatch bounds the nesting of messages in a part that is compared for reuse. A part that differs
// only far below is compared once more for each part around it that differs too, so that without a
// bound the time could be quadratic.
const maxMatch = 16

// place is the position of a field in a struct.
type place struct{ offset, size uint32 }

// matches reports whether decoding b, not in plain mode, gives exactly the message at p, including
// which fields are nil and which are empty; the message may then be shared. It may also return
// false if finding out would take too long: for messages nested more than left deep, for types with
// their own Unmarshal, and for anything no server writes. It only reads.
//
// As in decoder.message, p is a value of m.typ.
func (d *decoder) matches(m *message, p unsafe.Pointer, b []byte, left int) bool {
	if left < 0 {
		return false
	}
	var seen, set uint64
	for i := 0; i < len(b); {
		num, wire, next := int32(b[i]>>3), int(b[i]&7), i+1
		if b[i] < 8 || b[i] >= 0x80 || wire == endGroupWire {
			var err error
			if num, wire, next, err = tag(b, i); err != nil {
				return false
			}
		}
		f := d.fieldOf(m, num)
		if f.op == skipOp {
			var err error
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
		if i = d.matchField(f, unsafe.Add(p, f.offset), b, i, next, wire, left); i == noMatch {
			return false
		}
	}
	return m.isZeroBut(set, p)
}

// noMatch is what the functions below return instead of the index after the field.
const noMatch = -1

// matchField compares the field whose tag is b[start:i] with the value at p.
func (d *decoder) matchField(f *field, p unsafe.Pointer, b []byte, start, i, wire, left int) (end int) {
	switch f.op {
	case varintOp:
		return matchVarint(f, p, b, i, wire)
	case varintPointerOp:
		return matchVarint(f, *(*unsafe.Pointer)(p), b, i, wire)
	case numbersOp:
		return matchNumbers(f, (*header)(p), b, start, i, wire)
	}
	if wire != bytesWire {
		return noMatch
	}
	switch f.op {
	case listOp:
		return d.matchList(f, (*header)(p), b, start, i, left)
	case mapOp:
		return d.matchMap(f, p, b, start, i, left)
	case pointerOp:
		p = *(*unsafe.Pointer)(p)
	}
	from, end, err := prefixed(b, i)
	if err != nil || p == nil || !d.matchValue(f, p, b[from:end], left) {
		return noMatch
	}
	return end
}

// matchValue compares one length-delimited value.
func (d *decoder) matchValue(f *field, p unsafe.Pointer, b []byte, left int) bool {
	switch f.kind {
	case stringKind:
		return *(*string)(p) == string(b)
	case bytesKind:
		return sameBytes(*(*[]byte)(p), b)
	case timeKind, microTimeKind:
		return matchTime(f.kind, p, b)
	case quantityKind:
		return d.matchQuantity((*resource.Quantity)(p), b)
	case messageKind:
		if f.items && len(b) == 0 {
			slice := (*header)(p)
			return slice.data != nil && slice.cap == 0
		}
		return d.matches(d.plan(f), p, b, left-1)
	}
	return false
}

// sameBytes reports whether decoding b gives old. Decoded slices have no spare room, here and below: with some, what is
// appended to one object's slice could land in that of another.
func sameBytes(old, b []byte) bool {
	return old != nil && len(old) == cap(old) && string(old) == string(b)
}

// matchTime compares a time. Its memory is at p, whatever type it is wrapped in.
func matchTime(k kind, p unsafe.Pointer, b []byte) bool {
	t, err := parseTime(k, b)
	return err == nil && t == *(*time.Time)(p)
}

// matchVarint compares a number. p may be nil.
func matchVarint(f *field, p unsafe.Pointer, b []byte, i, wire int) (end int) {
	v, end, err := uvarint(b, i)
	if err != nil || p == nil || wire != varintWire || !isVarintAt(f.kind, p, v) {
		return noMatch
	}
	return end
}

// isVarintAt reports whether setVarint would change nothing.
func isVarintAt(k kind, p unsafe.Pointer, v uint64) bool {
	switch k {
	case boolKind:
		return *(*bool)(p) == (v != 0)
	case int32Kind:
		return *(*int32)(p) == int32(v)
	default:
		return *(*int64)(p) == int64(v)
	}
}

// matchNumbers compares a run of unpacked varints.
func matchNumbers(f *field, slice *header, b []byte, start, i, wire int) (end int) {
	tag := b[start:i]
	if wire != varintWire || slice.len == 0 || slice.cap != slice.len {
		return noMatch
	}
	for k := range slice.len {
		if k > 0 {
			if !bytes.HasPrefix(b[i:], tag) {
				return noMatch
			}
			i += len(tag)
		}
		if i = matchVarint(f, unsafe.Add(slice.data, uintptr(k)*f.size), b, i, wire); i == noMatch {
			return noMatch
		}
	}
	return unlessMore(b, i, tag)
}

// matchList compares the run of elements whose first tag is b[start:i].
func (d *decoder) matchList(f *field, slice *header, b []byte, start, i, left int) (end int) {
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
		if err != nil || !d.matchValue(f, unsafe.Add(slice.data, uintptr(k)*f.size), b[from:to], left) {
			return noMatch
		}
		i = to
	}
	return unlessMore(b, i, tag)
}

// unlessMore returns i, or noMatch if the run continues there. If another run follows later, the message is irregular.
func unlessMore(b []byte, i int, tag []byte) int {
	if bytes.HasPrefix(b[i:], tag) {
		return noMatch
	}
	return i
}

// matchMap compares the run of map entries whose first tag is b[start:i]. p points to the map. The
// entries must be in key order, as servers write them, so that no key comes twice.
func (d *decoder) matchMap(f *field, p unsafe.Pointer, b []byte, start, i, left int) (end int) {
	tag, n := b[start:i], 0
	var last []byte
	for first := true; first || bytes.HasPrefix(b[i:], tag); first = false {
		if !first {
			i += len(tag)
		}
		key, value, next := plainEntry(b, i)
		if next == noMatch || !first && bytes.Compare(last, key) >= 0 {
			return noMatch
		}
		last, i = key, next
		if f.mapped.trims[string(key)] {
			continue
		}
		if !d.matchEntry(f, p, key, value, left) {
			return noMatch
		}
		n++
	}
	// Safe because the length of a map does not depend on its type. A map all of whose entries are trimmed is nil.
	if n != len(*(*map[string]string)(p)) || n == 0 && *(*unsafe.Pointer)(p) != nil {
		return noMatch
	}
	return i
}

// plainEntry reads the map entry at b[i:], which must consist of exactly a key and a value.
func plainEntry(b []byte, i int) (key, value []byte, end int) {
	from, end, err := prefixed(b, i)
	if err != nil || from == end || b[from] != 1<<3|bytesWire {
		return nil, nil, noMatch
	}
	keyFrom, keyTo, err := prefixed(b[:end], from+1)
	if err != nil || keyTo == end || b[keyTo] != 2<<3|bytesWire {
		return nil, nil, noMatch
	}
	valueFrom, valueTo, err := prefixed(b[:end], keyTo+1)
	if err != nil || valueTo != end {
		return nil, nil, noMatch
	}
	return b[keyFrom:keyTo], b[valueFrom:valueTo], end
}

var (
	stringMapType = reflect.TypeFor[map[string]string]()
	bytesMapType  = reflect.TypeFor[map[string][]byte]()
)

// matchEntry compares the value under key in the map that p points to.
func (d *decoder) matchEntry(f *field, p unsafe.Pointer, key, value []byte, left int) bool {
	switch {
	case f.whole == stringMapType:
		held, ok := (*(*map[string]string)(p))[string(key)]
		return ok && held == string(value)
	case f.whole == bytesMapType:
		held, ok := (*(*map[string][]byte)(p))[string(key)]
		return ok && sameBytes(held, value)
	case f.kind == quantityKind:
		// Safe because the keys of all maps are of string kinds.
		held, ok := (*(*map[string]resource.Quantity)(p))[string(key)]
		return ok && d.matchQuantity(&held, value)
	}
	m := reflect.NewAt(f.whole, p).Elem()
	held := m.MapIndex(reflect.ValueOf(string(key)).Convert(f.whole.Key()))
	if !held.IsValid() {
		return false
	}
	v := reflect.New(f.typ)
	v.Elem().Set(held)
	return d.matchValue(f, v.UnsafePointer(), value, left)
}

// isZeroBut reports whether all fields of the message at p are zero except those in set. That
// includes fields that are trimmed or not encoded.
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
