package proto

import (
	"bytes"
	"reflect"
	"unsafe"
)

func (f *field) isVarint() bool {
	return f.kind == boolKind || f.kind == int32Kind || f.kind == int64Kind
}

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

// smallValues are the targets of pointers to common numbers, made when they are first needed. They are shared.
type smallValues struct {
	bools [2]*bool
	int32 [1024]*int32
	int64 [1024]*int64
}

// newVarint returns a pointer to v.
func (d *decoder) newVarint(f *field, v uint64) unsafe.Pointer {
	if !d.shares() || v >= uint64(len(d.small.int64)) {
		p := d.alloc(f.typ, f.size)
		setVarint(f.kind, p, v)
		return p
	}
	switch f.kind {
	case boolKind:
		return unsafe.Pointer(common(d.table, f, &d.small.bools[min(v, 1)], v != 0))
	case int32Kind:
		return unsafe.Pointer(common(d.table, f, &d.small.int32[v], int32(v)))
	}
	return unsafe.Pointer(common(d.table, f, &d.small.int64[v], int64(v)))
}

// common returns the shared v in slot, which is replaced if somebody has written to it.
func common[E comparable](t *table, f *field, slot **E, v E) *E {
	if *slot == nil || **slot != v {
		if *slot != nil {
			t.corrupted = append(t.corrupted, f.path)
		}
		*slot = &v
	}
	return *slot
}

// string sets *p to b, shared with what is equal if that pays. The old string, if there is one, is asked first.
func (d *decoder) string(s *site, p, old *string, b []byte) {
	switch {
	case len(b) == 0:
		*p = ""
	case old != nil && *old == string(b):
		*p = *old
	case d.shares() && s.wants(b):
		text, hash, verdict := d.table.findString(s, b)
		switch {
		case text != "":
			*p = text
		case verdict == store:
			*p = string(b)
			d.table.add(hash, stringShape, nil, b, unsafe.Pointer(unsafe.StringData(*p)), len(b), len(b))
		default:
			d.ownString(p, b)
		}
	default:
		d.ownString(p, b)
	}
}

// maxPutOff is the size from which a string or byte slice gets an allocation of its own: a block shall not be so large
// that it matters when a reader keeps one of its strings longer than the object.
const maxPutOff = 2 << 10

func (d *decoder) ownString(p *string, b []byte) {
	if d.putsOff() && len(b) < maxPutOff {
		d.arena.text(p, b)
		return
	}
	d.spend(len(b))
	*p = string(b)
}

// bytes sets *p to a copy of b that is never nil, or to the old one if that is equal.
func (d *decoder) bytes(p, old *[]byte, b []byte) {
	switch {
	case len(b) == 0:
		*p = []byte{}
	case old != nil && sameBytes(*old, b):
		*p = *old
	case d.putsOff() && len(b) < maxPutOff:
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

// copyValue copies the value of type typ at from to to.
func copyValue(typ reflect.Type, to, from unsafe.Pointer) {
	reflect.NewAt(typ, to).Elem().Set(reflect.NewAt(typ, from).Elem())
}
