package store

import (
	"unsafe"

	"github.com/tidings/tidings/internal/fold"
)

// Encoding is what an object was decoded from. The zero value says that nobody knows.
type Encoding struct {
	data   []byte      // what the store's Codec decodes to the object
	packed fold.Packed // or that as a patch
	// before is the entry, a *folded[T], of an earlier state of the object, nil if that is not known: where the store has that, it has the object's key.
	before unsafe.Pointer
}

// EncodingOf returns the Encoding of an object that the store's Codec decodes from data. It refers to these.
func EncodingOf(data []byte) Encoding { return Encoding{data: data} }

// IsZero reports whether nobody knows what the object was decoded from.
func (e Encoding) IsZero() bool { return e.data == nil && e.packed.IsZero() }

// appendTo appends the bytes to dst, and returns false if they cannot be had.
func (e Encoding) appendTo(dst []byte) ([]byte, bool) {
	if e.packed.IsZero() {
		return append(dst, e.data...), e.data != nil
	}
	out, err := e.packed.Open(dst)
	return out, err == nil
}
