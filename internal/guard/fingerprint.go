package guard

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"reflect"
	"sync"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Bounds for objects that refer to themselves, or are huge.
const (
	fingerprintDepth  = 64
	fingerprintValues = 100_000
)

var fingerprintSeed = maphash.MakeSeed()

// Fingerprint is a hash of an object's contents: its exported fields, recursively. It calls no code
// of the object's type, which could panic or encode the same object in several ways; the order of a
// map's entries does not matter. Unexported fields, where types keep caches, do not count, and
// neither do changes there. The fingerprint of an object with too many values is 0.
func Fingerprint(obj any) uint64 {
	w := walk{left: fingerprintValues}
	sum := w.value(reflect.ValueOf(obj), fingerprintDepth)
	if w.left <= 0 { // how far it got may depend on the order of a map
		return 0
	}
	return sum
}

// walk is one traversal of an object.
type walk struct{ left int } // number of values it may still visit

func (w *walk) value(v reflect.Value, depth int) uint64 {
	if w.left--; depth == 0 || w.left <= 0 {
		return 0
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return 1
		}
		return mix(2, w.value(v.Elem(), depth-1))
	case reflect.Struct:
		return w.fields(v, depth)
	case reflect.Map:
		return w.entries(v, depth)
	case reflect.Slice, reflect.Array:
		return w.list(v, depth)
	case reflect.String:
		return maphash.String(fingerprintSeed, v.String())
	case reflect.Bool:
		if v.Bool() {
			return 3
		}
		return 4
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return mix(5, uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return mix(6, v.Uint())
	case reflect.Float32, reflect.Float64:
		return mix(7, math.Float64bits(v.Float()))
	default: // functions, channels: no API object has any
		return 0
	}
}

func (w *walk) fields(v reflect.Value, depth int) uint64 {
	s := shapeOf(v.Type())
	if s.special != nil {
		return s.special(v)
	}
	var at unsafe.Pointer // nil if the struct has no address, as a map's values
	if v.CanAddr() {
		at = v.Addr().UnsafePointer()
	}
	sum := uint64(9)
	for i := range s.exported {
		f := &s.exported[i]
		if at != nil && f.plain && f.isZero(at) {
			continue // as most fields are
		}
		sum = mix(sum, f.index)
		if at != nil && f.text {
			sum = mix(sum, maphash.String(fingerprintSeed, *(*string)(unsafe.Add(at, f.offset))))
			continue
		}
		sum = mix(sum, w.value(v.Field(int(f.index)), depth-1))
	}
	return sum
}

// shape is what a walk needs to know of a struct type. Asking reflect each time takes as long as the walk.
type shape struct {
	exported []field
	special  func(reflect.Value) uint64 // of types that keep their contents in unexported fields
}

// field is a field of a struct. Its memory is read directly, which takes a fraction of the time.
type field struct {
	index        uint64
	offset, size uintptr
	text         bool // it is a string
	plain        bool // all of its memory counts: there are no unexported fields in it
}

// isZero reports whether the field is zero in the struct at p.
func (f *field) isZero(p unsafe.Pointer) bool {
	b := unsafe.Slice((*byte)(unsafe.Add(p, f.offset)), f.size)
	for ; len(b) >= 8; b = b[8:] {
		if binary.NativeEndian.Uint64(b) != 0 {
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

var shapes sync.Map // of *shape, by reflect.Type

func shapeOf(typ reflect.Type) *shape {
	if known, ok := shapes.Load(typ); ok {
		return known.(*shape)
	}
	s := &shape{exported: make([]field, 0, typ.NumField())}
	switch typ {
	case reflect.TypeFor[time.Time]():
		s.special = func(v reflect.Value) uint64 {
			return mix(8, uint64(contents[time.Time](v).UnixNano()))
		}
	case reflect.TypeFor[resource.Quantity]():
		s.special = func(v reflect.Value) uint64 {
			return mix(12, math.Float64bits(contents[resource.Quantity](v).AsApproximateFloat64()))
		}
	}
	for i := range typ.NumField() {
		if f := typ.Field(i); f.IsExported() {
			s.exported = append(s.exported, field{
				index: uint64(i), offset: f.Offset, size: f.Type.Size(),
				text: f.Type.Kind() == reflect.String, plain: isPlain(f.Type),
			})
		}
	}
	known, _ := shapes.LoadOrStore(typ, s)
	return known.(*shape)
}

// isPlain reports whether all memory of a value of the type counts.
func isPlain(typ reflect.Type) bool {
	switch typ.Kind() {
	case reflect.Struct:
		for f := range typ.Fields() {
			if !f.IsExported() || !isPlain(f.Type) {
				return false
			}
		}
	case reflect.Array:
		return isPlain(typ.Elem())
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return false
	}
	return true
}

// contents returns a value of type T, without a copy of it if it is a part of something.
func contents[T any](v reflect.Value) *T {
	if v.CanAddr() {
		return v.Addr().Interface().(*T)
	}
	copied := v.Interface().(T)
	return &copied
}

func (w *walk) entries(v reflect.Value, depth int) uint64 {
	sum := mix(10, uint64(v.Len()))
	for entries := v.MapRange(); entries.Next(); {
		// Adding does not depend on the order.
		sum += mix(w.value(entries.Key(), depth-1), w.value(entries.Value(), depth-1))
	}
	return sum
}

func (w *walk) list(v reflect.Value, depth int) uint64 {
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		return mix(13, maphash.Bytes(fingerprintSeed, v.Bytes()))
	}
	sum := mix(11, uint64(v.Len()))
	for i := range v.Len() {
		sum = mix(sum, w.value(v.Index(i), depth-1))
	}
	return sum
}

// mix combines two hashes; their order matters.
func mix(a, b uint64) uint64 {
	h := (a ^ b>>32) * 0x9e3779b97f4a7c15
	return (h ^ h>>29 ^ b) * 0xbf58476d1ce4e5b9
}
