package intern

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"reflect"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// mixer is an odd number without a pattern.
const mixer = 0x9e3779b97f4a7c15

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^mixer, b^0xbf58476d1ce4e5b9)
	return hi ^ lo
}

// hasher hashes contents. The seed is secret, so nobody can make different contents collide.
type hasher struct {
	seed maphash.Seed
	key  uint64
	// bytes counts the memory behind what was hashed.
	bytes int
	// odd is set if something was met that is not comparable.
	odd bool
	// levels bounds the depth: something may refer to itself.
	levels int
}

// maxLevels is far more than any real object has.
const maxLevels = 100

// start prepares the hash of another part.
func (h *hasher) start() { h.bytes, h.odd, h.levels = 0, false, maxLevels }

// at returns the memory at an offset from p. It is safe because plans are those of what p points to.
func at(p unsafe.Pointer, offset uintptr) unsafe.Pointer { return unsafe.Add(p, offset) }

func bytesAt(p unsafe.Pointer, s span) []byte { return unsafe.Slice((*byte)(at(p, s.offset)), s.size) }

// value returns the hash of the value at p.
func (h *hasher) value(pl *plan, p unsafe.Pointer) uint64 {
	sum := h.key
	for i := range pl.words {
		sum = h.words(sum, bytesAt(p, pl.words[i]))
	}
	for i := range pl.refs {
		r := pl.refs[i]
		sum = mix(sum, h.ref(r, at(p, r.offset)))
	}
	return sum
}

func (h *hasher) words(sum uint64, b []byte) uint64 {
	for ; len(b) >= 8; b = b[8:] {
		sum = mix(sum, binary.NativeEndian.Uint64(b))
	}
	for _, c := range b {
		sum = mix(sum, uint64(c))
	}
	return sum
}

// ref returns the hash of what the reference at p refers to.
func (h *hasher) ref(r *ref, p unsafe.Pointer) (sum uint64) {
	if h.levels--; h.levels < 0 {
		h.odd = true
	}
	if h.odd {
		return 0
	}
	switch r.kind {
	case text:
		sum = h.text(*(*string)(p))
	case pointer:
		if to := *(*unsafe.Pointer)(p); to != nil {
			h.bytes += int(r.target().typ.Size())
			sum = mix(h.value(r.target(), to), 1)
		}
	case slice:
		sum = h.slice(r, (*header)(p))
	case mapping:
		sum = h.mapping(r, p)
	default:
		h.odd = *(*unsafe.Pointer)(p) != nil
	}
	h.levels++
	return sum
}

func (h *hasher) text(s string) uint64 {
	h.bytes += len(s)
	return maphash.String(h.seed, s)
}

func (h *hasher) slice(r *ref, s *header) uint64 {
	if s.data == nil {
		return 0
	}
	sum, elem := mix(h.key, uint64(s.len)), r.target()
	size := elem.typ.Size()
	h.bytes += s.len * int(size)
	if isBytes(elem) {
		return mix(sum, maphash.Bytes(h.seed, unsafe.Slice((*byte)(s.data), s.len)))
	}
	for i := range s.len {
		sum = mix(sum, h.value(elem, at(s.data, uintptr(i)*size)))
	}
	return sum
}

func isBytes(elem *plan) bool { return elem.typ.Size() == 1 && len(elem.refs) == 0 }

// entryBytes is about what an entry of a map takes besides its key and value.
const entryBytes = 8

// mapping returns a hash that does not depend on the order of the entries.
func (h *hasher) mapping(r *ref, p unsafe.Pointer) (sum uint64) {
	// Safe because the types of keys and values are of these kinds, and so are hashed the same way.
	switch r.form {
	case textMap:
		m := *(*map[string]string)(p)
		h.bytes += len(m) * (entryBytes + 32)
		for k, v := range m {
			sum += mix(h.text(k), h.text(v))
		}
		return mix(sum, sizeOf(m == nil, len(m)))
	case quantityMap:
		m := *(*map[string]resource.Quantity)(p)
		h.bytes += len(m) * (entryBytes + 16 + int(quantityType.Size()))
		elem := r.target()
		for k, v := range m {
			sum += mix(h.text(k), h.value(elem, unsafe.Pointer(&v)))
		}
		return mix(sum, sizeOf(m == nil, len(m)))
	}
	m, elem := reflect.NewAt(r.typ, p).Elem(), r.target()
	h.bytes += m.Len() * (entryBytes + 16 + int(elem.typ.Size()))
	value := reflect.New(elem.typ)
	for entries := m.MapRange(); entries.Next(); {
		value.Elem().SetIterValue(entries)
		sum += mix(h.text(entries.Key().String()), h.value(elem, value.UnsafePointer()))
	}
	return mix(sum, sizeOf(m.IsNil(), m.Len()))
}

// sizeOf distinguishes nil from empty.
func sizeOf(isNil bool, n int) uint64 {
	if isNil {
		return 0
	}
	return uint64(n) + 1
}

// equal reports whether two values are exactly equal: nil is not empty, and what is odd equals
// nothing. The first must not refer to itself.
func equal(pl *plan, a, b unsafe.Pointer) bool {
	for _, s := range pl.words {
		if string(bytesAt(a, s)) != string(bytesAt(b, s)) {
			return false
		}
	}
	for i := range pl.refs {
		r := pl.refs[i]
		if !equalRefs(r, at(a, r.offset), at(b, r.offset)) {
			return false
		}
	}
	return true
}

// equalRefs reports whether the references at a and b refer to equal values.
func equalRefs(r *ref, a, b unsafe.Pointer) bool {
	switch r.kind {
	case text:
		return *(*string)(a) == *(*string)(b)
	case pointer:
		p, q := *(*unsafe.Pointer)(a), *(*unsafe.Pointer)(b)
		return p == q || p != nil && q != nil && equal(r.target(), p, q)
	case slice:
		return equalSlices(r.target(), (*header)(a), (*header)(b))
	case mapping:
		return equalMaps(r, a, b)
	}
	return *(*unsafe.Pointer)(a) == nil && *(*unsafe.Pointer)(b) == nil
}

func equalSlices(elem *plan, a, b *header) bool {
	if a.len != b.len || (a.data == nil) != (b.data == nil) {
		return false
	}
	if a.data == b.data {
		return true
	}
	size := elem.typ.Size()
	if isBytes(elem) {
		return string(unsafe.Slice((*byte)(a.data), a.len)) == string(unsafe.Slice((*byte)(b.data), b.len))
	}
	for i := range a.len {
		if !equal(elem, at(a.data, uintptr(i)*size), at(b.data, uintptr(i)*size)) {
			return false
		}
	}
	return true
}

func equalMaps(r *ref, a, b unsafe.Pointer) bool {
	p, q := *(*unsafe.Pointer)(a), *(*unsafe.Pointer)(b)
	if p == nil || q == nil || p == q {
		return p == q
	}
	switch r.form { // safe as in mapping
	case textMap:
		m, n := *(*map[string]string)(a), *(*map[string]string)(b)
		if len(m) != len(n) {
			return false
		}
		for k, v := range m {
			if w, ok := n[k]; !ok || v != w {
				return false
			}
		}
		return true
	case quantityMap:
		m, n := *(*map[string]resource.Quantity)(a), *(*map[string]resource.Quantity)(b)
		if len(m) != len(n) {
			return false
		}
		for k, v := range m {
			if w, ok := n[k]; !ok || !equal(r.target(), unsafe.Pointer(&v), unsafe.Pointer(&w)) {
				return false
			}
		}
		return true
	}
	return equalAnyMaps(r, reflect.NewAt(r.typ, a).Elem(), reflect.NewAt(r.typ, b).Elem())
}

func equalAnyMaps(r *ref, m, n reflect.Value) bool {
	if m.Len() != n.Len() {
		return false
	}
	v, w := reflect.New(r.target().typ), reflect.New(r.target().typ)
	for entries := m.MapRange(); entries.Next(); {
		found := n.MapIndex(entries.Key())
		if !found.IsValid() {
			return false
		}
		v.Elem().SetIterValue(entries)
		w.Elem().Set(found)
		if !equal(r.target(), v.UnsafePointer(), w.UnsafePointer()) {
			return false
		}
	}
	return true
}
