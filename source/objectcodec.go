package source

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/object"
)

// ErrLossy is wrapped by the error of Codec.Append for an object that cannot be had back from its encoding as it is.
var ErrLossy = errors.New("its encoding does not say all that it says")

// Codec encodes objects of one type, to be kept in little memory or in a file, and decodes them again. Any goroutine may
// call its methods, and none waits for another.
//
// Built-in types and *metav1.PartialObjectMetadata are encoded in protobuf, with the kind before them; all others in
// JSON. An object equals the one that was encoded, or is not encoded at all: a nil slice stays nil, an empty one empty.
// What may differ is what has no meaning: the location and monotonic clock of a time, the notation of a quantity.
type Codec[T object.Object] struct {
	typ      reflect.Type // the struct that T points to
	encoding string
	append   func(dst []byte, obj T) ([]byte, error)
	envelope bool // the kind is before the encoding
	patches  bool
	differs  sync.Pool // of wire.Differ, if there are patches

	mu      sync.Mutex // held while decoding; nobody waits for it
	decoder wire.Decoder[T]
	decoded int // objects since shared parts were checked

	newAlone func() (wire.Decoder[T], error) // cannot fail, since it was called before
	idleMu   sync.Mutex                      // guards idle
	idle     *alone[T]                       // made by newAlone, and used by nobody at the moment, or nil
	spare    sync.Pool                       // more of them, as long as they are in use now and then
}

// alone is a decoder of single objects.
type alone[T any] struct {
	wire.Decoder[T]
	decoded int // objects since shared parts were checked
}

// decode is Decode of objects that come into other hands at once.
func (d *alone[T]) decode(data []byte) (T, error) {
	if d.decoded++; d.decoded%recheckEvery == 1 {
		d.Recheck()
	}
	return d.Decode(data, *new(T))
}

// decoderAlone takes a decoder of single objects out of those that are idle, or makes one.
func (c *Codec[T]) decoderAlone() *alone[T] {
	c.idleMu.Lock()
	defer c.idleMu.Unlock()
	if d := c.idle; d != nil {
		c.idle = nil
		return d
	}
	if d, ok := c.spare.Get().(*alone[T]); ok {
		return d
	}
	d, _ := c.newAlone()
	return &alone[T]{Decoder: d}
}

// giveBack makes the decoder idle.
func (c *Codec[T]) giveBack(d *alone[T]) {
	c.idleMu.Lock()
	defer c.idleMu.Unlock()
	if c.idle == nil {
		c.idle = d
	} else {
		c.spare.Put(d)
	}
}

// sharedAlone is how many bytes a decoder of single objects may take to remember what many of them have: so little that all of it is
// soon in use again. maxShared is that of the codec.
func sharedAlone(maxShared int) int {
	const least, most = 32 << 10, 256 << 10
	if maxShared == 0 {
		return most
	}
	return min(max(maxShared/8, least), most)
}

// recheckEvery is the number of decoded objects after which shared parts are checked again, before another one gets them.
const recheckEvery = 32

// NewCodec returns a codec for T, a pointer to a struct. maxShared is how much memory it may take to remember parts that objects have
// in common; 0 means what suits a collection of any size.
func NewCodec[T object.Object](maxShared int) (*Codec[T], error) {
	return NewCodecAs[T](reflect.TypeFor[T](), maxShared)
}

// NewCodecAs is NewCodec for a type that is known at run time only, a pointer to a struct. T is an interface that it has.
func NewCodecAs[T object.Object](typ reflect.Type, maxShared int) (*Codec[T], error) {
	if typ.Kind() != reflect.Pointer || typ.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("source: cannot encode %v; want a pointer to a struct", typ)
	}
	c := &Codec[T]{typ: typ.Elem()}
	options := wire.Options{MaxTableBytes: maxShared, NoVersions: true}
	var err error
	switch {
	case formOf(typ) == unstructuredForm:
		err = c.useUnstructured(options)
	case typ.Implements(reflect.TypeFor[message]()):
		err = c.useProtobuf(options)
	default:
		err = c.useJSON(options)
	}
	if err != nil {
		return nil, fmt.Errorf("source: codec of %v: %w", typ, err)
	}
	return c, nil
}

// Encoding names the encoding: "protobuf" or "json". Data of one Go type and encoding can be read by any codec of these.
func (c *Codec[T]) Encoding() string { return c.encoding }

// Append appends the encoding of obj to dst and returns the extended slice. The error wraps ErrLossy if decoding it would not
// give an equal object, or is that of the type's own methods; the slice is then dst.
func (c *Codec[T]) Append(dst []byte, obj T) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil { // in a method of the user's type
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

// AppendReceived is Append of the object that a source decodes from data, of which it has called Decode. It only copies: nothing has to be encoded again, and
// what such an object is can always be had back. The codec's encoding has to be protobuf.
func (c *Codec[T]) AppendReceived(dst, data []byte) []byte {
	return append(append(dst, 0, 0), data...) // objects of sources state no kind
}

// ReceivedData returns the data of an encoding that AppendReceived or Append returned, nil if the codec's encoding is another one.
func (c *Codec[T]) ReceivedData(encoded []byte) []byte {
	if !c.envelope {
		return nil
	}
	_, data, _ := c.open(encoded)
	return data
}

// Diff appends a patch to dst that makes data of base, both encodings by this codec. It returns false, with dst as it was, if there is none of at most so
// many bytes, or if the codec's encoding knows no patches. Applying the patch gives exactly data again.
func (c *Codec[T]) Diff(dst, base, data []byte, most int) ([]byte, bool) {
	_, body, err := c.open(data)
	head := len(data) - len(body)
	if !c.patches || err != nil || len(base) < head || string(base[:head]) != string(data[:head]) {
		return dst, false
	}
	d := c.differs.Get().(wire.Differ)
	defer c.differs.Put(d)
	return d.Diff(dst, head, base, data, most)
}

// DecodeBase is DecodeAlone of an object that patches are based on. Its strings may be parts of data, which nobody changes any more.
func (c *Codec[T]) DecodeBase(data []byte) (obj T, err error) {
	kind, body, err := c.open(data)
	if err != nil {
		return obj, err
	}
	if !c.patches {
		return obj, errors.New("decode a base: the encoding knows no patches")
	}
	d := c.decoderAlone()
	defer c.giveBack(d)
	if obj, err = d.Decoder.(wire.Patcher[T]).DecodeBase(body); err == nil {
		setTypeMeta(obj, kind)
	}
	return obj, err
}

// DecodePatch returns the object that a patch makes of base, which was decoded from what the patch is based on. What the patch leaves as it is is a part
// of both then.
func (c *Codec[T]) DecodePatch(base T, patch []byte) (obj T, err error) {
	if !c.patches {
		return obj, errors.New("decode a patch: the encoding knows none")
	}
	d := c.decoderAlone()
	defer c.giveBack(d)
	return d.Decoder.(wire.Patcher[T]).Patched(base, patch)
}

// DecodeNextPatch is DecodePatch where other is an earlier state of the object, which otherPatch has made of the same base. What the two patches have in
// common is a part of both objects then.
func (c *Codec[T]) DecodeNextPatch(base T, patch []byte, other T, otherPatch []byte) (obj T, err error) {
	if !c.patches {
		return obj, errors.New("decode a patch: the encoding knows none")
	}
	d := c.decoderAlone()
	defer c.giveBack(d)
	return d.Decoder.(wire.Patcher[T]).Repatched(base, patch, other, otherPatch)
}

// SharedBytes returns what the codec takes to remember parts that objects have in common, and what they look like. It is not for every
// object.
func (c *Codec[T]) SharedBytes() int64 {
	shared := c.decoder.Stats()
	c.idleMu.Lock()
	defer c.idleMu.Unlock()
	if c.idle != nil {
		shared = addStats(shared, c.idle.Stats())
	}
	return int64(shared.TableBytes + shared.PlanBytes)
}

// Decode decodes what Append encoded. The object is read-only: it shares what is equal with other objects that were decoded,
// and with previous, an earlier version or the zero T.
func (c *Codec[T]) Decode(data []byte, previous T) (T, error) {
	if !c.mu.TryLock() { // rather decode all of it than wait
		return c.DecodeAlone(data)
	}
	defer c.mu.Unlock()
	kind, body, err := c.open(data)
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

// DecodeAlone is Decode for those who look at one object, out of any order, and soon drop it: in protobuf it shares little, and while
// somebody holds one of its strings the encoding lives, if that has no more than 32 KiB. In JSON it shares nothing.
func (c *Codec[T]) DecodeAlone(data []byte) (obj T, err error) {
	kind, body, err := c.open(data)
	if err != nil {
		return obj, err
	}
	d := c.decoderAlone()
	defer c.giveBack(d)
	if obj, err = d.decode(body); err == nil {
		setTypeMeta(obj, kind)
	}
	return obj, err
}

// open takes the kind off the data.
func (c *Codec[T]) open(data []byte) (kind metav1.TypeMeta, body []byte, err error) {
	if !c.envelope {
		return kind, data, nil
	}
	apiVersion, rest, ok := cutPrefixed(data)
	name, rest, more := cutPrefixed(rest)
	if !ok || !more {
		return kind, nil, fmt.Errorf("decode %v: the kind is cut off", c.typ)
	}
	return metav1.TypeMeta{APIVersion: string(apiVersion), Kind: string(name)}, rest, nil
}

// setTypeMeta sets what open took off.
func setTypeMeta(obj object.Object, kind metav1.TypeMeta) {
	if of, ok := obj.GetObjectKind().(*metav1.TypeMeta); ok && kind != (metav1.TypeMeta{}) {
		*of = kind
	}
}

func appendPrefixed(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func cutPrefixed(b []byte) (s, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, false
	}
	return b[size : size+int(n)], b[size+int(n):], true
}

// message is what the generated code gives built-in types.
type message interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
	Unmarshal([]byte) error
}

func (c *Codec[T]) useProtobuf(options wire.Options) error {
	keeps := keepers{}.of(c.typ)
	c.encoding, c.envelope = "protobuf", true
	c.append = func(dst []byte, obj T) ([]byte, error) {
		if keeps != nil && !keeps(reflect.ValueOf(obj).Elem()) {
			return nil, ErrLossy
		}
		kind, ok := obj.GetObjectKind().(*metav1.TypeMeta)
		if !ok {
			return nil, ErrLossy
		}
		dst = appendPrefixed(appendPrefixed(dst, kind.APIVersion), kind.Kind)
		return appendMessage(dst, any(obj).(message))
	}
	single := wire.Options{KeepBytes: true, NoVersions: true, MaxTableBytes: sharedAlone(options.MaxTableBytes)}
	return c.useDecoder(func(options wire.Options) (wire.Decoder[T], error) {
		return protobufDecoder[T](reflect.PointerTo(c.typ), options)
	}, options, single)
}

// useDecoder sets what decodes.
func (c *Codec[T]) useDecoder(decoder func(wire.Options) (wire.Decoder[T], error), options, single wire.Options) (err error) {
	c.newAlone = func() (wire.Decoder[T], error) { return decoder(single) }
	if c.decoder, err = decoder(options); err != nil {
		return err
	}
	d, err := c.newAlone()
	c.idle = &alone[T]{Decoder: d}
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
		err = fmt.Errorf("it has %d bytes and not %d; somebody wrote to it meanwhile", n, size)
	}
	return dst, err
}

func (c *Codec[T]) useJSON(options wire.Options) error {
	c.encoding = "json"
	c.append = func(dst []byte, obj T) ([]byte, error) {
		data, err := json.Marshal(obj)
		if err != nil {
			return nil, err
		}
		back := reflect.New(c.typ).Interface().(T)
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, back); err != nil {
			return nil, err
		}
		if !same(obj, back) {
			return nil, ErrLossy
		}
		return append(dst, data...), nil
	}
	return c.useDecoder(func(options wire.Options) (wire.Decoder[T], error) {
		return jsonDecoder[T](reflect.PointerTo(c.typ), options)
	}, options, wire.Options{NoSharing: true})
}

func (c *Codec[T]) useUnstructured(options wire.Options) error {
	c.encoding = "json"
	c.append = func(dst []byte, obj T) ([]byte, error) {
		return appendJSON(dst, any(obj).(*unstructured.Unstructured).Object, 0)
	}
	return c.useDecoder(func(options wire.Options) (wire.Decoder[T], error) { return jsonDecoder[T](unstructuredType, options) }, options, wire.Options{NoSharing: true})
}
