// Package codec turns objects into bytes and back: what the store needs to fold them, and files to save them. Objects
// is the codec of the Kubernetes types; Sharer lets objects that did not come from a decoder share equal parts.
package codec

import (
	"github.com/tidings/tidings/internal/wire/patch"
	"github.com/tidings/tidings/object"
)

// Codec encodes and decodes objects. Its methods may be called from any goroutine.
type Codec[T object.Object] interface {
	// Append appends the encoding of obj to dst. It returns an error if decoding would not restore
	// an equal object; such an object cannot be folded or saved.
	Append(dst []byte, obj T) ([]byte, error)
	// Decode decodes what Append encoded, for readers of many objects in order. The object may
	// share equal parts with other objects, and with previous, an earlier version of it or the zero
	// T.
	Decode(data []byte, previous T) (T, error)
	// DecodeAlone decodes what Append encoded, for readers of single objects that are soon dropped.
	DecodeAlone(data []byte) (T, error)
}

// Patcher is a Codec that can store objects as patches of others.
type Patcher[T object.Object] interface {
	Codec[T]
	patch.Decoder[T]
	// Diff appends to dst a patch that turns base into data, both encodings of objects. It returns
	// false if there is none of at most most bytes. It must be exact: see fold.Differ.
	Diff(dst, base, data []byte, most int) ([]byte, bool)
}
