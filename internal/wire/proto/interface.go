package proto

import (
	"reflect"
	"unsafe"

	"github.com/tidings/tidings/internal/wire"
)

// AsInterface is a wire.Decoder for objects whose type is known only at run time. T is an interface
// that they implement.
type AsInterface[T any] struct{ *Decoder[unsafe.Pointer] }

// NewAsInterface returns a decoder for typ, a pointer to a struct that implements the interface T. See New.
func NewAsInterface[T any](typ reflect.Type, opts wire.Options) (AsInterface[T], error) {
	dec, err := newOf[unsafe.Pointer](typ, opts)
	return AsInterface[T]{dec}, err
}

// Decode implements wire.Decoder. A previous object of another type is ignored.
func (dec AsInterface[T]) Decode(data []byte, previous T) (T, error) {
	return dec.Update(data, previous, nil)
}

// Update implements wire.Patcher. A previous object of another type is ignored.
func (dec AsInterface[T]) Update(data []byte, previous T, encoded []byte) (T, error) {
	var old unsafe.Pointer
	if v := reflect.ValueOf(previous); v.IsValid() && v.Type() == dec.typ {
		old = v.UnsafePointer()
	}
	p, err := dec.Decoder.Update(data, old, encoded)
	if err != nil {
		var none T
		return none, err
	}
	return reflect.NewAt(dec.typ.Elem(), p).Interface().(T), nil
}
