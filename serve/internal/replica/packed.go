package replica

import (
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// rawCodec makes objects foldable: their encoding is the bytes that came. It is a codec.Codec.
type rawCodec struct {
	protobuf bool
	// objects makes patches, and marks what it can compare; nil for JSON.
	objects *codec.Objects[object.Object]
}

func newRawCodec(t *protocol.ResourceType) (*rawCodec, error) {
	c := &rawCodec{protobuf: t.BuiltIn}
	if !t.BuiltIn {
		return c, nil
	}
	example, err := scheme.Scheme.New(t.GroupVersionKind())
	if err == nil {
		c.objects, err = codec.NewAs[object.Object](reflect.TypeOf(example), 0)
	}
	if err != nil {
		return nil, fmt.Errorf("objects cannot be packed: %w", err)
	}
	return c, nil
}

// encode appends what is packed of an object.
func (c *rawCodec) encode(dst []byte, raw *codec.Raw) []byte {
	data, _ := raw.Encoding()
	if c.objects != nil {
		return codec.AppendReceived(dst, data)
	}
	return append(dst, data...)
}

// head returns how much longer that is than the object's bytes.
func (c *rawCodec) head() int {
	if c.objects != nil {
		return len(codec.AppendReceived(nil, nil))
	}
	return 0
}

// Append implements codec.Codec.
func (c *rawCodec) Append(dst []byte, raw *codec.Raw) ([]byte, error) { return c.encode(dst, raw), nil }

// Decode implements codec.Codec.
func (c *rawCodec) Decode(data []byte, _ *codec.Raw) (*codec.Raw, error) { return c.DecodeAlone(data) }

// DecodeAlone implements codec.Codec.
func (c *rawCodec) DecodeAlone(data []byte) (*codec.Raw, error) {
	if c.objects != nil {
		data = codec.Received(data)
	}
	return codec.ParseRaw(data, c.protobuf)
}

// patchedCodec is a rawCodec whose encodings can be patches of each other. It is no codec.Patcher: an object is opened
// from its bytes, since a Raw shares nothing with others.
type patchedCodec struct{ *rawCodec }

// Diff implements store.Differ.
func (c patchedCodec) Diff(dst, base, data []byte, most int) ([]byte, bool) {
	return c.objects.Diff(dst, base, data, most)
}

var _ store.Differ = patchedCodec{}

// newWriter returns the writer of an empty store, which folds objects if there is a codec.
func newWriter(c *rawCodec) *store.Writer[*codec.Raw] {
	w := store.NewWriter[*codec.Raw](store.Options{OnOpenError: func(key object.Key, err error) {
		panic(fmt.Sprintf("replica: %v in memory is broken: %v", key, err)) // its checksum was right when it was packed
	}})
	switch {
	case c == nil:
	case c.objects != nil:
		w.UseCodec(patchedCodec{c}, reflect.TypeFor[*codec.Raw]())
	default:
		w.UseCodec(c, reflect.TypeFor[*codec.Raw]())
	}
	return w
}

// packed is an object of a list that is kept folded. Its identity is at hand; all else is opened when it is asked for,
// and not kept, so that a list of very many objects holds hardly more than their places.
type packed struct {
	*metav1.ObjectMeta // noMeta, of which nothing is used
	held               store.Held[*codec.Raw]
	head               int // what its encoding has before the object's bytes
}

var noMeta = &metav1.ObjectMeta{}

func (o *packed) open() *codec.Raw { return o.held.Object() }

// GetNamespace is part of metav1.Object, as are the methods that follow.
func (o *packed) GetNamespace() string { return o.held.Key().Namespace }

// GetName implements metav1.Object.
func (o *packed) GetName() string { return o.held.Key().Name }

// GetUID implements metav1.Object.
func (o *packed) GetUID() types.UID { return o.held.UID() }

// GetLabels implements metav1.Object.
func (o *packed) GetLabels() map[string]string { return o.open().Labels }

// GetResourceVersion implements metav1.Object.
func (o *packed) GetResourceVersion() string { return o.held.ResourceVersion() }

// GetObjectKind implements runtime.Object.
func (o *packed) GetObjectKind() schema.ObjectKind { return o.open().GetObjectKind() }

// DeepCopyObject implements runtime.Object. Nothing of it can be changed.
func (o *packed) DeepCopyObject() runtime.Object { return o }

// Encoding implements protocol.Encoded.
func (o *packed) Encoding() (data []byte, isProtobuf bool) { return o.open().Encoding() }

// EncodedSize implements protocol.Sized.
func (o *packed) EncodedSize() int {
	bytes, _ := o.held.Packed()
	return bytes.Len() - o.head
}

// WithResourceVersion implements protocol.Encoded.
func (o *packed) WithResourceVersion(version string) object.Object {
	return o.open().WithResourceVersion(version)
}

var (
	_ protocol.Encoded = (*packed)(nil)
	_ protocol.Sized   = (*packed)(nil)
)
