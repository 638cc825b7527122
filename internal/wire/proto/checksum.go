package proto

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"reflect"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// layout describes the memory that is writable through a value of a type: the value itself and
// everything that it refers to, except strings, which nobody can write to.
type layout struct {
	size uintptr
	refs []refs
	kind mapKind
	typ  reflect.Type // of a map
	elem *layout      // of a map's values
}

// refs are references in a value: n consecutive pointers, a slice or a map.
type refs struct {
	offset uint32
	slice  bool
	// to are the layouts of the targets.
	to []*layout
}

// mapKind says how a map is read.
type mapKind uint8

const (
	noMap mapKind = iota
	stringMap
	quantityMap
	otherMap
)

// layouts creates the layout of each type once: types may be recursive.
type layouts map[reflect.Type]*layout

// plain are the layouts of types without references, by size: most fields are of such types.
var plain = map[uintptr]*layout{1: {size: 1}, 2: {size: 2}, 4: {size: 4}, 8: {size: 8}, 16: {size: 16}}

func (ls layouts) of(t reflect.Type) *layout {
	if kind := t.Kind(); kind == reflect.String || kind >= reflect.Bool && kind <= reflect.Float64 {
		return plain[t.Size()]
	}
	if l, ok := ls[t]; ok {
		return l
	}
	l := &layout{size: t.Size(), kind: mapKindOf(t)}
	ls[t] = l
	if l.kind != noMap {
		l.typ, l.elem = t, ls.of(t.Elem())
	} else {
		ls.collect(l, t, 0)
	}
	return l
}

// collect adds the references in a value of type t at offset.
func (ls layouts) collect(l *layout, t reflect.Type, offset uintptr) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Map:
		to := t
		if t.Kind() == reflect.Pointer {
			to = t.Elem()
		}
		l.addPointer(uint32(offset), ls.of(to))
	case reflect.Slice:
		l.refs = append(l.refs, refs{offset: uint32(offset), slice: true, to: []*layout{ls.of(t.Elem())}})
	case reflect.Array:
		for i := range t.Len() {
			ls.collect(l, t.Elem(), offset+uintptr(i)*t.Elem().Size())
		}
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return // nobody may write to its Location, which has a cache
		}
		for sf := range t.Fields() {
			ls.collect(l, sf.Type, offset+sf.Offset)
		}
	}
}

func (l *layout) addPointer(offset uint32, to *layout) {
	if last := len(l.refs) - 1; last >= 0 && !l.refs[last].slice && l.refs[last].offset+8*uint32(len(l.refs[last].to)) == offset {
		l.refs[last].to = append(l.refs[last].to, to)
		return
	}
	l.refs = append(l.refs, refs{offset: offset, to: []*layout{to}})
}

func mapKindOf(t reflect.Type) mapKind {
	switch {
	case t.Kind() != reflect.Map:
		return noMap
	case t.Key().Kind() == reflect.String && t.Elem().Kind() == reflect.String:
		return stringMap
	case t.Key().Kind() == reflect.String && t.Elem() == quantityType:
		return quantityMap
	}
	return otherMap
}

// checksummer computes checksums of the memory that is writable through a value. Two checksums are
// equal if nobody wrote to it in between, and different if somebody did, except with a probability
// of 2^-64.
type checksummer struct {
	seed  maphash.Seed
	start uint64
	// left bounds how many values a sum visits. Somebody may have made them refer to each other in a cycle.
	visitsLeft int
}

func newChecksummer() checksummer {
	seed := maphash.MakeSeed()
	return checksummer{seed: seed, start: maphash.String(seed, "start")}
}

// mixer is an odd number without a pattern.
const mixer = 0x9e3779b97f4a7c15

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b^mixer)
	return hi ^ lo
}

// maxWords is the size up to which memory is summed word by word.
const maxWords = 48

// memory returns the checksum of just the n bytes at p.
func (s *checksummer) memory(p unsafe.Pointer, n uintptr) uint64 {
	if n > maxWords {
		return maphash.Bytes(s.seed, unsafe.Slice((*byte)(p), n))
	}
	h := s.start + uint64(n)
	b := unsafe.Slice((*byte)(p), n)
	for ; len(b) >= 8; b = b[8:] {
		h = mix(h, binary.NativeEndian.Uint64(b))
	}
	for _, c := range b {
		h = mix(h, uint64(c))
	}
	return h
}

// sum returns the checksum of something decoded from size bytes: n values starting at p, or the map p.
func (s *checksummer) sum(l *layout, p unsafe.Pointer, n, size int) uint64 {
	s.visitsLeft = size + 1 // every reference takes more than a byte
	return s.values(l, p, n)
}

// values returns the checksum of n consecutive values starting at p, or of the map p.
func (s *checksummer) values(l *layout, p unsafe.Pointer, n int) uint64 {
	if s.visitsLeft--; s.visitsLeft < 0 {
		return 0
	}
	if l.kind != noMap {
		return s.mapping(l, p)
	}
	// Safe because p points to n values of this size, here and everywhere below: l is the layout of their type.
	h := s.memory(p, uintptr(n)*l.size)
	if len(l.refs) == 0 {
		return h
	}
	for k := range n {
		value := unsafe.Add(p, uintptr(k)*l.size)
		for i := range l.refs {
			r := &l.refs[i]
			at := unsafe.Add(value, uintptr(r.offset))
			if r.slice {
				if slice := (*header)(at); slice.len > 0 {
					h = mix(h, s.values(r.to[0], slice.data, slice.len))
				}
				continue
			}
			for m, to := range unsafe.Slice((*unsafe.Pointer)(at), len(r.to)) {
				if to != nil {
					h = mix(h, s.values(r.to[m], to, 1))
				}
			}
		}
	}
	return h
}

// mapping returns the checksum of a map, whose values are not maps. It does not depend on the order of entries.
func (s *checksummer) mapping(l *layout, m unsafe.Pointer) (sum uint64) {
	// Safe because keys are of string kinds, and values of string kinds or quantities.
	switch l.kind {
	case stringMap:
		for k, v := range *(*map[string]string)(unsafe.Pointer(&m)) {
			sum += mix(s.text(k), s.text(v))
		}
	case quantityMap:
		for k, v := range *(*map[string]resource.Quantity)(unsafe.Pointer(&m)) {
			sum += mix(s.text(k), s.memory(unsafe.Pointer(&v), unsafe.Sizeof(v)))
		}
	default:
		return s.otherMap(l, m)
	}
	return sum
}

func (s *checksummer) otherMap(l *layout, m unsafe.Pointer) (sum uint64) {
	value := reflect.New(l.typ.Elem())
	for entries := reflect.NewAt(l.typ, unsafe.Pointer(&m)).Elem().MapRange(); entries.Next(); {
		value.Elem().SetIterValue(entries)
		sum += mix(s.text(entries.Key().String()), s.values(l.elem, value.UnsafePointer(), 1))
	}
	return sum
}

// text hashes a string by its address: nobody can write to its bytes, which do not move either, so only another string
// can take its place.
func (s *checksummer) text(text string) uint64 {
	return mix(s.start^uint64(uintptr(unsafe.Pointer(unsafe.StringData(text)))), uint64(len(text)))
}
