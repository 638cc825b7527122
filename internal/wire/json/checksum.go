package json

import (
	"math"
	"math/bits"
	"unsafe"
)

// isSound verifies an entry once per batch, and drops it if somebody has written to it, which is
// possible for maps and slices only.
func (b *builder) isSound(e *entry, f *field, size int) bool {
	switch {
	case !isContainer(e.Value) || b.table.IsChecked(e):
		return true
	case e.Memory == b.checksumOf(e.Value, size):
		b.table.Checked(e)
		return true
	}
	b.table.Drop(e)
	b.corrupted = append(b.corrupted, b.fields.nameOf(f))
	return false
}

func isContainer(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// The checksum of a value changes if somebody writes to a map or slice in it, the only parts that
// are writable. It covers the addresses of strings rather than their bytes.

// checksumOf returns the checksum of v, which was decoded from size bytes.
func (b *builder) checksumOf(v any, size int) uint64 {
	b.visitsLeft = size
	return b.checksum(v)
}

// checksum returns the checksum of v. It visits at most b.visitsLeft values, because somebody may
// have put a map into itself.
func (b *builder) checksum(v any) uint64 {
	if b.visitsLeft--; b.visitsLeft < 0 {
		return 0
	}
	switch v := v.(type) {
	case map[string]any:
		sum := uint64(len(v))
		for name, member := range v {
			sum += b.memberSum(name, b.checksum(member)) // in any order
		}
		return sum
	case []any:
		sum := uint64(len(v))
		for _, element := range v {
			sum = b.elementSum(sum, b.checksum(element))
		}
		return sum
	}
	return checksumScalar(v)
}

// partSum returns the checksum of a map or slice that was just built or found, or of a scalar.
func (b *builder) partSum(v any) uint64 {
	if isContainer(v) {
		return b.sum
	}
	return checksumScalar(v)
}

func (b *builder) memberSum(name string, member uint64) uint64 {
	return mix(checksumString(name), member^b.table.hash.a)
}

func (b *builder) elementSum(sum, element uint64) uint64 {
	return mix(sum^b.table.hash.a, element)
}

func checksumScalar(v any) uint64 {
	switch v := v.(type) {
	case string:
		return checksumString(v)
	case int64:
		return mix(uint64(v), 1)
	case float64:
		return mix(math.Float64bits(v), 2)
	case bool:
		if v {
			return 3
		}
		return 4
	case nil:
		return 5
	}
	return 6 // not a value that this package decodes
}

func checksumString(s string) uint64 {
	return mix(uint64(uintptr(unsafe.Pointer(unsafe.StringData(s)))), uint64(len(s)))
}

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xbf58476d1ce4e5b9)
	return hi ^ lo
}
