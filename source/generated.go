package source

import (
	"fmt"
	"reflect"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/object"
)

type generated[T object.Object] struct{ elem reflect.Type }

func (g generated[T]) Decode(data []byte) (T, error) {
	o := reflect.New(g.elem).Interface().(T)
	if err := any(o).(interface{ Unmarshal([]byte) error }).Unmarshal(data); err != nil {
		var zero T
		return zero, fmt.Errorf("decode protobuf: %w", err)
	}
	return o, nil
}
func (g generated[T]) Peek([]byte) (wire.Meta, bool) { return wire.Meta{}, false }
func (g generated[T]) Stats() wire.Stats             { return wire.Stats{} }
