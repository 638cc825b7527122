package proto

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/wire/patch"
)

// setVarint stores v at p, truncated as the generated code does.
func setVarint(k kind, p unsafe.Pointer, v uint64) {
	switch k {
	case boolKind:
		*(*bool)(p) = v != 0
	case int32Kind:
		*(*int32)(p) = int32(v)
	default:
		*(*int64)(p) = int64(v)
	}
}

// smallValues are shared targets of pointers to common numbers, created when first needed.
type smallValues struct {
	bools [2]*bool
	int32 smallNumbers[int32]
	int64 smallNumbers[int64]
}

// smallNumbers are in pages, since most objects need few.
type smallNumbers[E any] [maxSmall / smallPage]*[smallPage]*E

const (
	// maxSmall is the end of the range of shared numbers.
	maxSmall  = 1024
	smallPage = 16
)

// slot returns the place of v.
func (n *smallNumbers[E]) slot(v uint64) **E {
	page := &n[v/smallPage]
	if *page == nil {
		*page = new([smallPage]*E)
	}
	return &(*page)[v%smallPage]
}

// newVarint returns a pointer to v.
func (d *decoder) newVarint(f *field, v uint64) unsafe.Pointer {
	if !d.shares() || v >= maxSmall {
		p := d.alloc(f.typ, f.size)
		setVarint(f.kind, p, v)
		return p
	}
	switch f.kind {
	case boolKind:
		return unsafe.Pointer(common(d.table, f, &d.small.bools[min(v, 1)], v != 0))
	case int32Kind:
		return unsafe.Pointer(common(d.table, f, d.small.int32.slot(v), int32(v)))
	}
	return unsafe.Pointer(common(d.table, f, d.small.int64.slot(v), int64(v)))
}

// common returns the shared v in slot. It replaces one that somebody has written to.
func common[E comparable](t *table, f *field, slot **E, v E) *E {
	if *slot == nil || **slot != v {
		if *slot != nil {
			t.corrupted = append(t.corrupted, f.path())
		}
		*slot = &v
	}
	return *slot
}

// string sets *p to b, sharing an equal string if that pays off. It tries the old string first, if there is one.
func (d *decoder) string(s *site, p, old *string, b []byte) {
	switch {
	case len(b) == 0:
		*p = ""
	case old != nil && *old == string(b):
		*p = *old
	case d.sharesValues() && s.shouldLookUp(b):
		text, hash, action := d.table.findString(s, b)
		switch {
		case text != "":
			*p = text
		case action == decodeAndStore:
			*p = string(b)
			d.table.add(hash, stringShape, nil, b, unsafe.Pointer(unsafe.StringData(*p)), len(b), len(b))
		default:
			d.ownString(p, b)
		}
	default:
		d.ownString(p, b)
	}
}

// maxDeferred is the size from which a string or byte slice gets its own allocation. It keeps
// blocks small, so that it hardly matters if a reader keeps one of the strings longer than the
// object.
const maxDeferred = 2 << 10

func (d *decoder) ownString(p *string, b []byte) {
	if d.aliasesInput() {
		*p = unsafe.String(unsafe.SliceData(b), len(b))
		return
	}
	if d.canDefer() && len(b) < maxDeferred {
		d.arena.text(p, b)
		return
	}
	d.spend(len(b))
	*p = string(b)
}

// bytes sets *p to a copy of b that is never nil, or to the old slice if that is equal.
func (d *decoder) bytes(p, old *[]byte, b []byte) {
	switch {
	case len(b) == 0:
		*p = []byte{}
	case old != nil && sameBytes(*old, b):
		*p = *old
	case d.aliasesInput() && !d.inPlace: // unlike strings, byte slices are writable
		*p = b[:len(b):len(b)]
	case d.canDefer() && len(b) < maxDeferred:
		d.arena.raw(p, b)
	default:
		d.spend(len(b))
		*p = bytes.Clone(b)[:len(b):len(b)]
	}
}

// alloc returns a new zero value of typ.
func (d *decoder) alloc(typ reflect.Type, size uintptr) unsafe.Pointer {
	d.spend(int(size))
	return reflect.New(typ).UnsafePointer()
}

// parseTime reads a metav1.Time or metav1.MicroTime. Like their own Unmarshal it accepts empty bytes as the zero time
// and drops fractions: those of a second for Time, those of a microsecond for MicroTime.
func parseTime(k kind, b []byte) (t time.Time, err error) {
	if len(b) == 0 {
		return t, nil
	}
	seconds, ok := patch.Seconds(b)
	var nanos int32
	if !ok {
		if seconds, nanos, err = timestamp(b); err != nil {
			return t, err
		}
	}
	if k == timeKind {
		nanos = 0
	}
	return time.Unix(seconds, int64(time.Duration(nanos).Truncate(time.Microsecond))), nil
}

// setTime stores a metav1.Time or metav1.MicroTime.
func setTime(k kind, p unsafe.Pointer, b []byte) error {
	t, err := parseTime(k, b)
	if err != nil {
		return err
	}
	if k == timeKind {
		(*metav1.Time)(p).Time = t
	} else {
		(*metav1.MicroTime)(p).Time = t
	}
	return nil
}

// timestamp reads the two fields of a metav1.Timestamp.
func timestamp(b []byte) (seconds int64, nanos int32, err error) {
	for i := 0; i < len(b); {
		num, wire, next, err := tag(b, i)
		if err != nil {
			return 0, 0, err
		}
		if num > 2 {
			if i, err = skip(b, i); err != nil {
				return 0, 0, err
			}
			continue
		}
		if wire != varintWire {
			return 0, 0, fmt.Errorf("protobuf: wire type %d does not fit a time", wire)
		}
		v, next, err := uvarint(b, next)
		if err != nil {
			return 0, 0, err
		}
		if num == 1 {
			seconds = int64(v)
		} else {
			nanos = int32(v)
		}
		i = next
	}
	return seconds, nanos, nil
}

// quantity decodes a resource.Quantity, a message with one string. The string is cached in the
// quantity, so that the String method, which readers may call on shared values concurrently, never
// writes.
func (d *decoder) quantity(p unsafe.Pointer, b []byte) error {
	for i := 0; i < len(b); {
		num, wire, next, err := tag(b, i)
		if err != nil {
			return err
		}
		if num != 1 {
			if i, err = skip(b, i); err != nil {
				return err
			}
			continue
		}
		if wire != bytesWire {
			return fmt.Errorf("protobuf: wire type %d does not fit a quantity", wire)
		}
		from, to, err := prefixed(b, next)
		if err != nil {
			return err
		}
		q, err := d.quantities.parse(b[from:to])
		if err != nil {
			return err
		}
		*(*resource.Quantity)(p) = q
		i = to
	}
	return nil
}

// matchQuantity compares a quantity. One that does not fit 64 bits has a pointer, so that comparing its memory is not
// enough.
func (d *decoder) matchQuantity(held *resource.Quantity, b []byte) bool {
	if len(b) == 0 || b[0] != 1<<3|bytesWire {
		return false
	}
	from, to, err := prefixed(b, 1)
	if err != nil || to != len(b) {
		return false
	}
	q, err := d.quantities.parse(b[from:to])
	return err == nil && (*held == q || !isValue(q) && held.Format == q.Format && held.Cmp(q) == 0)
}

// quantities caches parsed quantities by their text. Most objects use the same few.
type quantities map[string]resource.Quantity

// maxQuantities bounds the cached quantities, maxQuantityText the length of their texts.
const (
	maxQuantities   = 1024
	maxQuantityText = 32
)

// parse returns the quantity that text encodes, with its string cached.
func (qs *quantities) parse(text []byte) (resource.Quantity, error) {
	if q, ok := (*qs)[string(text)]; ok {
		return q, nil
	}
	q, err := parseQuantity(string(text))
	if err != nil {
		return q, err
	}
	_ = q.String()
	if len(text) <= maxQuantityText && isValue(q) {
		if *qs == nil || len(*qs) >= maxQuantities {
			*qs = quantities{}
		}
		(*qs)[string(text)] = q
	}
	return q, nil
}

// isValue reports whether q holds no pointer, so that copies of it are independent.
func isValue(q resource.Quantity) bool { return q == q.DeepCopy() }

// maxExponent bounds the decimal exponent of a quantity. resource.ParseQuantity computes the power,
// which takes minutes for an exponent of a few bytes. It rounds values below 1n and caps values
// above 2^63, so no meaningful quantity is lost.
const maxExponent = 1000

var errExponent = errors.New("the exponent of a quantity is out of range")

func parseQuantity(s string) (resource.Quantity, error) {
	if i := strings.LastIndexAny(s, "eE"); i >= 0 {
		if n, err := strconv.ParseInt(s[i+1:], 10, 64); err == nil && (n > maxExponent || n < -maxExponent) {
			return resource.Quantity{}, fmt.Errorf("%q: %w", s, errExponent)
		}
	}
	return resource.ParseQuantity(s)
}

// foreign decodes b with the type's own Unmarshal. A panic there is blamed on the bytes.
func (d *decoder) foreign(typ reflect.Type, p unsafe.Pointer, b []byte) error {
	d.spend(len(b))
	if d.inPlace || d.patching {
		b = bytes.Clone(b) // the method may keep it
	}
	return ownUnmarshal(typ, p, b)
}
