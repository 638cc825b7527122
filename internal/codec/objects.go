package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/object"
)

// ErrLossy is wrapped by the error of Append for an object that decoding would not restore exactly.
var ErrLossy = errors.New("encoding it would lose information")

// Objects encodes objects of one type, to keep them in a file or in little memory, and decodes them
// again. Its methods may be called from any goroutine, and do not wait for each other.
//
// Built-in types and *metav1.PartialObjectMetadata are encoded in protobuf, prefixed with the kind; all others in
// JSON. A decoded object equals the original, or encoding it fails: a nil slice stays nil, an empty one stays empty.
// Only meaningless details may differ: the location and monotonic clock of a time, the notation of a quantity.
type Objects[T object.Object] struct {
	typ      reflect.Type // the struct that T points to
	encoding string
	append   func(dst []byte, obj T) ([]byte, error)
	envelope bool // the kind is stored in front of the encoding
	patches  bool
	differs  sync.Pool // of wire.Differ, if patches is set

	newDecoder func(wire.Options) (wire.Decoder[T], error)

	mu      sync.Mutex // held while decoding; only acquired with TryLock
	decoder wire.Decoder[T]
	decoded int // objects since shared parts were last checked

	newSingle func() (wire.Decoder[T], error) // has succeeded before, so it cannot fail
	idleMu    sync.Mutex                      // guards idle
	idle      *singleDecoder[T]               // an unused decoder from newSingle, or nil
	spare     sync.Pool                       // more unused decoders
}

var _ Patcher[object.Object] = (*Objects[object.Object])(nil)

// singleDecoder decodes single objects.
type singleDecoder[T any] struct {
	wire.Decoder[T]
	decoded int // objects since shared parts were last checked
}

// decode decodes an object without a previous version. It regularly rechecks shared parts, because
// the caller hands out the objects.
func (d *singleDecoder[T]) decode(data []byte) (T, error) {
	if d.decoded++; d.decoded%recheckEvery == 1 {
		d.Recheck()
	}
	return d.Decode(data, *new(T))
}

// getDecoder returns an unused decoder of single objects, or a new one.
func (c *Objects[T]) getDecoder() *singleDecoder[T] {
	c.idleMu.Lock()
	defer c.idleMu.Unlock()
	if d := c.idle; d != nil {
		c.idle = nil
		return d
	}
	if d, ok := c.spare.Get().(*singleDecoder[T]); ok {
		return d
	}
	d, _ := c.newSingle()
	return &singleDecoder[T]{Decoder: d}
}

// putDecoder makes d available for reuse.
func (c *Objects[T]) putDecoder(d *singleDecoder[T]) {
	c.idleMu.Lock()
	defer c.idleMu.Unlock()
	if c.idle == nil {
		c.idle = d
	} else {
		c.spare.Put(d)
	}
}

// maxSharedSingle returns the limit in bytes for what a decoder of single objects remembers of
// shared parts. It is so small that all of it is reused soon. maxShared is the codec's limit.
func maxSharedSingle(maxShared int) int {
	const least, most = 32 << 10, 256 << 10
	if maxShared == 0 {
		return most
	}
	return min(max(maxShared/8, least), most)
}

// recheckEvery is the number of decoded objects after which shared parts are checked for
// modifications before they are reused.
const recheckEvery = 32

// New returns a codec for T, a pointer to a struct. maxShared limits the memory in bytes for
// remembering parts that objects have in common; 0 means a default that suits collections of any
// size.
func New[T object.Object](maxShared int) (*Objects[T], error) {
	return NewAs[T](reflect.TypeFor[T](), maxShared)
}

// NewAs is like New, for a type that is known only at run time. typ must be a pointer to
// a struct that implements T.
func NewAs[T object.Object](typ reflect.Type, maxShared int) (*Objects[T], error) {
	c, err := newEncoder[T](typ)
	if err != nil {
		return nil, err
	}
	single := wire.Options{NoSharing: true}
	if c.envelope {
		single = wire.Options{KeepBytes: true, NoVersions: true, MaxTableBytes: maxSharedSingle(maxShared)}
	}
	if err := c.makeDecoders(wire.Options{MaxTableBytes: maxShared, NoVersions: true}, single); err != nil {
		return nil, fmt.Errorf("source: codec of %v: %w", typ, err)
	}
	return c, nil
}

// newEncoder returns a codec without decoders. That of a struct in JSON needs them to encode.
func newEncoder[T object.Object](typ reflect.Type) (*Objects[T], error) {
	if typ.Kind() != reflect.Pointer || typ.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("source: cannot encode %v; want a pointer to a struct", typ)
	}
	c := &Objects[T]{typ: typ.Elem()}
	switch {
	case typ == unstructuredType:
		c.useUnstructured()
	case typ.Implements(reflect.TypeFor[message]()):
		c.useProtobuf()
	default:
		c.useJSON()
	}
	return c, nil
}

// Encoding returns the name of the encoding, "protobuf" or "json". Those of the same Go type and
// encoding can read each other's data.
func (c *Objects[T]) Encoding() string { return c.encoding }

// Append appends the encoding of obj to dst and returns the extended slice. On error it returns
// dst. The error wraps ErrLossy if decoding would not restore an equal object, or comes from the
// type's own methods.
func (c *Objects[T]) Append(dst []byte, obj T) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil { // a method of the user's type may panic
			out, err = dst, fmt.Errorf("encode %v: panic: %v", c.typ, r)
		}
	}()
	if got := reflect.TypeOf(obj); got != reflect.PointerTo(c.typ) {
		return dst, fmt.Errorf("encode %v: it is a %v", c.typ, got)
	}
	out, err = c.append(dst, obj)
	if err != nil {
		return dst, fmt.Errorf("encode %v: %w", c.typ, err)
	}
	return out, nil
}

// Diff appends to dst a patch that turns base into exactly data; both are encodings by this codec.
// It returns false and the unchanged dst if the patch would be larger than most bytes, or if the
// codec's encoding does not support patches.
func (c *Objects[T]) Diff(dst, base, data []byte, most int) ([]byte, bool) {
	_, body, err := c.cut(data)
	head := len(data) - len(body)
	if !c.patches || err != nil || len(base) < head || string(base[:head]) != string(data[:head]) {
		return dst, false
	}
	d := c.differs.Get().(wire.Differ)
	defer c.differs.Put(d)
	return d.Diff(dst, head, base, data, most)
}

// DecodeBase is DecodeAlone for an object that patches are based on. Its strings may share memory
// with data, which must not be modified afterwards.
func (c *Objects[T]) DecodeBase(data []byte) (obj T, err error) {
	kind, body, err := c.cut(data)
	if err != nil {
		return obj, err
	}
	if !c.patches {
		return obj, errors.New("decode a base: the encoding does not support patches")
	}
	d := c.getDecoder()
	defer c.putDecoder(d)
	if obj, err = d.Decoder.(wire.Patcher[T]).DecodeBase(body); err == nil {
		setTypeMeta(obj, kind)
	}
	return obj, err
}

// DecodePatch returns the result of applying a patch to base, which was decoded from the encoding
// that the patch is based on. The two objects share the parts that the patch does not change.
func (c *Objects[T]) DecodePatch(base T, patch []byte) (obj T, err error) {
	if !c.patches {
		return obj, errors.New("decode a patch: the encoding does not support patches")
	}
	d := c.getDecoder()
	defer c.putDecoder(d)
	return d.Decoder.(wire.Patcher[T]).DecodePatch(base, patch)
}

// DecodeNextPatch is DecodePatch if other is an earlier state of the object, made by applying
// otherPatch to the same base. The new object also shares with other what the two patches have in
// common.
func (c *Objects[T]) DecodeNextPatch(base T, patch []byte, other T, otherPatch []byte) (obj T, err error) {
	if !c.patches {
		return obj, errors.New("decode a patch: the encoding does not support patches")
	}
	d := c.getDecoder()
	defer c.putDecoder(d)
	return d.Decoder.(wire.Patcher[T]).DecodeNextPatch(base, patch, other, otherPatch)
}

// SharedBytes returns the memory, in bytes, that the codec's decoders use for shared parts of
// objects and for their plans of types. It is too expensive to call for every object.
func (c *Objects[T]) SharedBytes() int64 {
	shared := c.decoder.Stats()
	c.idleMu.Lock()
	defer c.idleMu.Unlock()
	if c.idle != nil {
		shared = shared.Plus(c.idle.Stats())
	}
	return int64(shared.TableBytes + shared.PlanBytes)
}

// Decode decodes an encoding from Append. The object is read-only: it shares equal parts with other decoded objects
// and with previous, an earlier version of it or the zero T.
func (c *Objects[T]) Decode(data []byte, previous T) (T, error) {
	if !c.mu.TryLock() { // sharing less is better than waiting
		return c.DecodeAlone(data)
	}
	defer c.mu.Unlock()
	kind, body, err := c.cut(data)
	if err != nil {
		return *new(T), err
	}
	if c.decoded++; c.decoded%recheckEvery == 1 {
		c.decoder.Recheck()
	}
	obj, err := c.decoder.Decode(body, previous)
	if err == nil {
		setTypeMeta(obj, kind)
	}
	return obj, err
}

// DecodeAlone is Decode for callers that look at a single object and soon drop it. In protobuf, the
// object shares little with others, but any of its strings that is still referenced keeps a copy of
// the encoding in memory, if that is at most 32 KiB. In JSON, it shares nothing.
func (c *Objects[T]) DecodeAlone(data []byte) (obj T, err error) {
	kind, body, err := c.cut(data)
	if err != nil {
		return obj, err
	}
	d := c.getDecoder()
	defer c.putDecoder(d)
	if obj, err = d.decode(body); err == nil {
		setTypeMeta(obj, kind)
	}
	return obj, err
}

// cut splits data into the kind and the encoded object.
func (c *Objects[T]) cut(data []byte) (kind metav1.TypeMeta, body []byte, err error) {
	if !c.envelope {
		return kind, data, nil
	}
	apiVersion, name, body, ok := CutKind(data)
	if !ok {
		return kind, nil, fmt.Errorf("decode %v: the kind is cut off", c.typ)
	}
	return metav1.TypeMeta{APIVersion: string(apiVersion), Kind: string(name)}, body, nil
}

// setTypeMeta sets the kind that cut returned.
func setTypeMeta(obj object.Object, kind metav1.TypeMeta) {
	if of, ok := obj.GetObjectKind().(*metav1.TypeMeta); ok && kind != (metav1.TypeMeta{}) {
		*of = kind
	}
}

// message is implemented by the generated code of built-in types.
type message interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
	Unmarshal([]byte) error
}

func (c *Objects[T]) useProtobuf() {
	lossless := losslessChecks{}.forType(c.typ)
	c.encoding, c.envelope = "protobuf", true
	c.append = func(dst []byte, obj T) ([]byte, error) {
		if lossless != nil && !lossless(reflect.ValueOf(obj).Elem()) {
			return nil, ErrLossy
		}
		kind, ok := obj.GetObjectKind().(*metav1.TypeMeta)
		if !ok {
			return nil, ErrLossy
		}
		return appendMessage(AppendKind(dst, kind.APIVersion, kind.Kind), any(obj).(message))
	}
	c.newDecoder = func(options wire.Options) (wire.Decoder[T], error) {
		return ProtobufDecoder[T](reflect.PointerTo(c.typ), options)
	}
}

// makeDecoders makes the decoder of objects that share parts, and one of single objects.
func (c *Objects[T]) makeDecoders(options, single wire.Options) (err error) {
	c.newSingle = func() (wire.Decoder[T], error) { return c.newDecoder(single) }
	if c.decoder, err = c.newDecoder(options); err != nil {
		return err
	}
	d, err := c.newSingle()
	c.idle = &singleDecoder[T]{Decoder: d}
	patcher, ok := d.(wire.Patcher[T])
	if c.patches = ok && err == nil; c.patches {
		c.differs.New = func() any { return patcher.NewDiffer() }
	}
	return err
}

func appendMessage(dst []byte, m message) ([]byte, error) {
	from, size := len(dst), m.Size()
	dst = append(dst, make([]byte, size)...)
	n, err := m.MarshalToSizedBuffer(dst[from:])
	if err == nil && n != size {
		err = fmt.Errorf("it was modified while it was encoded: it has %d bytes, not %d", n, size)
	}
	return dst, err
}

func (c *Objects[T]) useJSON() {
	c.encoding = "json"
	c.append = func(dst []byte, obj T) ([]byte, error) {
		data, err := json.Marshal(obj)
		if err != nil {
			return nil, err
		}
		back, err := c.DecodeAlone(data)
		if err != nil {
			return nil, err
		}
		if !equalWithNil(obj, back) {
			return nil, ErrLossy
		}
		return append(dst, data...), nil
	}
	c.newDecoder = func(options wire.Options) (wire.Decoder[T], error) {
		return JSONDecoder[T](reflect.PointerTo(c.typ), options)
	}
}

func (c *Objects[T]) useUnstructured() {
	c.encoding = "json"
	c.append = func(dst []byte, obj T) ([]byte, error) {
		u := any(obj).(*unstructured.Unstructured)
		if u.GroupVersionKind().Kind == "" {
			// It could not be decoded.
			return nil, fmt.Errorf("%w: it has no kind, or its apiVersion is malformed", ErrLossy)
		}
		return appendJSON(dst, u.Object, 0)
	}
	c.newDecoder = func(options wire.Options) (wire.Decoder[T], error) {
		return JSONDecoder[T](unstructuredType, options)
	}
}
