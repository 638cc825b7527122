package proto

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/tidings/tidings/internal/wire"
)

// A plan and what it has in common with other plans take up to 100 kB, and save some 6 kB for each object that shares
// parts with others. So a collection of few objects is decoded by the type's own Unmarshal.

// maxEarly is the largest encoding that is decoded so: an Unmarshal method does not bound what it allocates, which can
// be hundreds of times as much.
const maxEarly = 16 << 10

// newEarly returns a decoder that has no plan yet, or false if it needs one from the beginning.
func newEarly[T any](typ reflect.Type, opts wire.Options) (*Decoder[T], bool) {
	if opts.WithoutPlan == 0 || len(opts.Trim) > 0 || opts.KeepBytes || supported(typ) != nil {
		return nil, false
	}
	return &Decoder[T]{typ: typ, opts: opts, identified: beginsWithMeta(typ.Elem())}, true
}

// beginsWithMeta reports whether field 1 of a message type is the ObjectMeta.
func beginsWithMeta(typ reflect.Type) bool {
	if checkMessage(typ) != nil {
		return false
	}
	for sf := range typ.Fields() {
		if n, err := fieldNumber(sf); err == nil && n == 1 {
			return sf.Type == objectMetaType
		}
	}
	return false
}

// planned returns the decoder, with its plan. mu is held.
func (dec *Decoder[T]) planned() *decoder {
	if dec.d == nil {
		dec.d, _ = newDecoder(dec.typ, dec.opts) // there are no trims, and the type is supported
		dec.d.stats = dec.early
	}
	return dec.d
}

// A new state of an object that is held saves time rather than memory: it counts as 1/changeShare of an object.
const changeShare = 16

// decodeEarly decodes an object as long as there is no plan. It returns false if a plan has to do it, also to say what is
// wrong with the object. changes says that an earlier state is held. mu is held.
func (dec *Decoder[T]) decodeEarly(data []byte, changes bool) (p unsafe.Pointer, ok bool) {
	if dec.d != nil || dec.weight >= changeShare*dec.opts.WithoutPlan || len(data) > maxEarly {
		return nil, false
	}
	p = reflect.New(dec.typ.Elem()).UnsafePointer()
	if err := ownUnmarshal(dec.typ.Elem(), p, data); err != nil {
		return nil, false
	}
	if dec.weight++; !changes {
		dec.weight += changeShare - 1
	}
	dec.early.Objects++
	dec.early.Bytes += uint64(len(data))
	return p, true
}

// ownUnmarshal has the type's own method decode b into the value at p.
func ownUnmarshal(typ reflect.Type, p unsafe.Pointer, b []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("protobuf: %s: %v", typ, r)
		}
	}()
	return reflect.NewAt(typ, p).Interface().(unmarshaler).Unmarshal(b)
}
