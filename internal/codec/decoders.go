package codec

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/json"
	"github.com/tidings/tidings/internal/wire/proto"
	"github.com/tidings/tidings/object"
)

var unstructuredType = reflect.TypeFor[*unstructured.Unstructured]()

// JSONDecoder returns a JSON decoder for typ, which is T or implements it.
func JSONDecoder[T object.Object](typ reflect.Type, options wire.Options) (wire.Decoder[T], error) {
	if typ != unstructuredType {
		return json.NewTypedAs[T](typ, options)
	}
	d, err := json.NewUnstructured(options)
	if err != nil {
		return nil, err
	}
	if same, ok := any(d).(wire.Decoder[T]); ok {
		return same, nil
	}
	return any(unstructuredAsObject{d}).(wire.Decoder[T]), nil
}

// unstructuredAsObject decodes unstructured objects for callers that know their type only at run time.
type unstructuredAsObject struct{ *json.Unstructured }

// Decode implements wire.Decoder.
func (d unstructuredAsObject) Decode(data []byte, previous object.Object) (object.Object, error) {
	old, _ := previous.(*unstructured.Unstructured)
	u, err := d.Unstructured.Decode(data, old)
	if err != nil {
		return nil, err // not u, which would be a non-nil interface
	}
	return u, nil
}

// ProtobufDecoder returns a protobuf decoder for typ, which must have such an encoding, and which
// is T or implements it.
func ProtobufDecoder[T object.Object](typ reflect.Type, options wire.Options) (wire.Decoder[T], error) {
	if typ == reflect.TypeFor[T]() {
		return proto.New[T](options)
	}
	return proto.NewAsInterface[T](typ, options)
}
