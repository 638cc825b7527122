package protocol

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/tidings/tidings/object"
)

// Encoded is implemented by objects that a Storage keeps encoded. They are decoded only if a client
// wants another encoding.
type Encoded interface {
	object.Object
	// Encoding returns the object's bytes as they are in a list, and whether they are protobuf;
	// otherwise they are JSON.
	Encoding() (data []byte, isProtobuf bool)
	// WithResourceVersion returns the object with another version.
	WithResourceVersion(version string) object.Object
}

// Sized is implemented by Encoded objects whose bytes are made when they are asked for, and not kept.
type Sized interface {
	// EncodedSize returns how many bytes Encoding returns.
	EncodedSize() int
}

// ErrLossy is the error for an object that cannot be decoded without losing something, because the
// server that encoded it knows more than this program.
var ErrLossy = errors.New("the object has parts that this program does not know")

// Encode encodes an object, or a Status or another object that is not of the resource, as a response of its own.
func (e Encoding) Encode(o runtime.Object) ([]byte, error) {
	if encoded, ok := o.(Encoded); ok {
		return e.encodeEncoded(encoded)
	}
	return e.encode(e.Object(o))
}

// encodeEncoded uses the bytes that the object is kept in, if they are what the client wants.
func (e Encoding) encodeEncoded(o Encoded) ([]byte, error) {
	data, isProtobuf := o.Encoding()
	switch {
	case !e.Partial && isProtobuf && e.Media == Protobuf:
		return appendEnvelope(nil, e.Resource.GroupVersionKind().GroupVersion().String(), e.Resource.Kind, data), nil
	case !e.Partial && !isProtobuf && e.Media == "":
		return append(slices.Clip(data), '\n'), nil
	}
	opened, err := e.open(o)
	if err != nil {
		return nil, err
	}
	return e.encode(e.Object(opened))
}

// open decodes as much of an object as the client wants. It returns ErrLossy if encoding the result
// would not yield the same bytes.
func (e Encoding) open(o Encoded) (object.Object, error) {
	if !e.Partial {
		return e.Resource.decode(o)
	}
	var partial metav1.PartialObjectMetadata
	data, isProtobuf := o.Encoding()
	if !isProtobuf {
		return &partial, json.Unmarshal(data, &partial)
	}
	if err := partial.Unmarshal(data); err != nil {
		return nil, err
	}
	again, err := partial.ObjectMeta.Marshal()
	if err == nil && !bytes.Equal(again, firstField(data)) {
		err = ErrLossy
	}
	return &partial, err
}

// decode decodes an object.
func (r *ResourceType) decode(o Encoded) (object.Object, error) {
	data, isProtobuf := o.Encoding()
	decoded := r.New()
	if !isProtobuf {
		return decoded, json.Unmarshal(data, decoded)
	}
	m, ok := decoded.(interface {
		Marshal() ([]byte, error)
		Unmarshal([]byte) error
	})
	if !ok {
		return nil, ErrLossy
	}
	if err := m.Unmarshal(data); err != nil {
		return nil, err
	}
	again, err := m.Marshal()
	if err == nil && !bytes.Equal(again, data) {
		err = ErrLossy
	}
	return decoded, err
}

// firstField returns the content of the field that a message begins with.
func firstField(data []byte) []byte {
	if len(data) == 0 {
		return nil
	}
	size, n := binary.Uvarint(data[1:])
	if n <= 0 || uint64(len(data)-1-n) < size {
		return nil
	}
	return data[1+n:][:size]
}

// Object returns a decoded object in the form and with the kind that the client should see. It does not change o.
func (e Encoding) Object(o runtime.Object) runtime.Object {
	m, ok := o.(object.Object)
	if !ok || e.Resource == nil {
		return o
	}
	if e.Partial {
		partial := meta.AsPartialObjectMetadata(m)
		partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		return partial
	}
	kind := o.GetObjectKind().GroupVersionKind()
	if _, custom := o.(*unstructured.Unstructured); custom && kind.GroupKind() == e.Resource.GroupVersionKind().GroupKind() {
		kind = e.Resource.GroupVersionKind() // stored in another version
	} else if kind.Empty() {
		if kinds, _, err := scheme.Scheme.ObjectKinds(o); err == nil {
			kind = kinds[0]
		}
	}
	if kind == o.GetObjectKind().GroupVersionKind() {
		return o
	}
	o = shallowCopy(m)
	o.GetObjectKind().SetGroupVersionKind(kind)
	return o
}

// shallowCopy returns a copy whose kind can be set without changing that of o.
func shallowCopy(o object.Object) runtime.Object {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return &unstructured.Unstructured{Object: maps.Clone(u.Object)}
	}
	c := reflect.New(reflect.TypeOf(o).Elem())
	c.Elem().Set(reflect.ValueOf(o).Elem())
	return c.Interface().(runtime.Object)
}

// encode encodes an object that has its kind.
func (e Encoding) encode(o runtime.Object) ([]byte, error) {
	switch e.Media {
	case Protobuf:
		var b bytes.Buffer
		err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &b)
		return b.Bytes(), err
	case YAML:
		return yaml.Marshal(o)
	default:
		data, err := json.Marshal(o)
		return append(data, '\n'), err
	}
}

// Event encodes a watch event with its framing.
func (e Encoding) Event(t watch.EventType, o runtime.Object) ([]byte, error) {
	data, err := e.Encode(o)
	if err != nil {
		return nil, err
	}
	event := &metav1.WatchEvent{Type: string(t), Object: runtime.RawExtension{Raw: data}}
	if e.Media != Protobuf {
		head := fmt.Appendf(make([]byte, 0, len(data)+32), `{"type":%q,"object":`, string(t))
		return append(append(head, bytes.TrimSpace(data)...), "}\n"...), nil
	}
	framed := make([]byte, 4, 4+event.Size())
	data, err = event.Marshal()
	binary.BigEndian.PutUint32(framed, uint32(len(data)))
	return append(framed, data...), err
}
