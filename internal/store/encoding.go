package store

import (
	"unsafe"

	"github.com/tidings/tidings/internal/fold"
)

// Encoding is what an object was decoded from. The zero value means that this is not known.
type Encoding struct {
	data   []byte      // decoded by the store's Codec
	packed fold.Packed // or the same as a patch
	// before is the entry, a *folded[T], of an earlier state of the object, or nil if unknown. If
	// the store has that entry, it is under the object's key.
	before unsafe.Pointer
}

// EncodingOf returns the Encoding of an object that the store's Codec decoded from data. It keeps a reference to data.
func EncodingOf(data []byte) Encoding { return Encoding{data: data} }

// IsZero reports whether it is unknown what the object was decoded from.
func (e Encoding) IsZero() bool { return e.data == nil && e.packed.IsZero() }

// appendTo appends the encoded bytes to dst, or returns false if they are not available.
func (e Encoding) appendTo(dst []byte) ([]byte, bool) {
	if e.packed.IsZero() {
		return append(dst, e.data...), e.data != nil
	}
	out, err := e.packed.Open(dst)
	return out, err == nil
}
