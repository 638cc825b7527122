package source

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/json"
	"github.com/tidings/tidings/internal/wire/proto"
	"github.com/tidings/tidings/object"
)

// form is what T is, as far as the kind of its objects goes.
type form int

const (
	typedForm        form = iota // a Go struct, whose objects leave the source without apiVersion and kind
	unstructuredForm             // *unstructured.Unstructured, always with apiVersion and kind
	partialForm                  // *metav1.PartialObjectMetadata, with the scope's kind or the one that the server sent
)

// partialKind is the kind under which servers send metadata only.
var partialKind = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")

// codec reads one collection in one encoding. Its decoders live as long as the source, so that the objects of
// watches share memory with those of lists. It may be used by several goroutines.
type codec[T object.Object] struct {
	scope    Scope
	form     form
	protobuf bool
	// wanted is the kind that objects must be of; empty allows any.
	wanted schema.GroupVersionKind
	stats  *counters
	// newDecoder cannot fail, since it was called before.
	newDecoder func(noSharing bool) (wire.Decoder[T], error)
	shared     wire.Decoder[T]

	mu    sync.Mutex      // guards alone
	alone wire.Decoder[T] // decodes objects that share nothing; made when it is first asked for
}

// counters are a source's Stats as they grow.
type counters struct{ bytes, objects, reused, corrupted atomic.Uint64 }

// decoder returns the decoder for objects that share parts, or for ones that do not.
func (c *codec[T]) decoder(noSharing bool) wire.Decoder[T] {
	if !noSharing {
		return c.shared
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.alone == nil {
		c.alone, _ = c.newDecoder(true)
	}
	return c.alone
}

// wireStats adds what the codec's decoders have done to the sum.
func (c *codec[T]) wireStats(sum wire.Stats) wire.Stats {
	c.mu.Lock()
	alone := c.alone
	c.mu.Unlock()
	sum = addStats(sum, c.shared.Stats())
	if alone != nil {
		sum = addStats(sum, alone.Stats())
	}
	return sum
}

// reading is what decodes the objects of one list or watch.
type reading[T object.Object] struct {
	*codec[T]
	decoder   wire.Decoder[T]
	previous  Previous[T]
	noSharing bool
	// instead decodes in the decoder's place, or calls decodeNow for it to decode data, of which held is the version before. It is nil if nobody wants to.
	instead   Decode[T]
	decodeNow func(previousData []byte) (T, error)
	data      []byte
	held      T
}

func (c *codec[T]) reading(previous Previous[T], instead Decode[T], noSharing bool) *reading[T] {
	d := c.decoder(noSharing)
	d.Recheck()
	r := &reading[T]{codec: c, decoder: d, previous: previous, noSharing: noSharing}
	if instead != nil && c.protobuf && c.form == typedForm && len(c.scope.Trim) == 0 && !noSharing {
		r.instead, r.decodeNow = instead, r.decodeData
	}
	return r
}

// item decodes an item of a list, or takes the one that the caller holds.
func (r *reading[T]) item(data []byte) (T, error) {
	o, err := r.object(data)
	if err != nil {
		return o, r.objectError(data, 0, err)
	}
	return o, nil
}

// event decodes the object of a watch event, or takes the one that the caller holds.
func (r *reading[T]) event(data []byte, t EventType) (T, error) {
	raw, err := r.open(data)
	if err == nil {
		var o T
		if o, err = r.object(raw); err == nil {
			return o, nil
		}
	}
	var zero T
	return zero, r.objectError(raw, t, err)
}

// open takes the envelope off the object of an event, which has one in protobuf only, and checks the kind that it states.
func (c *codec[T]) open(data []byte) ([]byte, error) {
	if !c.protobuf {
		return data, nil
	}
	e, err := openEnvelope(data)
	if err != nil {
		return nil, err
	}
	if c.isWanted(string(e.APIVersion), string(e.Kind)) {
		return e.Raw, nil
	}
	return e.Raw, c.checkKind(schema.FromAPIVersionAndKind(string(e.APIVersion), string(e.Kind)))
}

// isWanted reports whether the kind is exactly the wanted one. It is cheaper than checkKind.
func (c *codec[T]) isWanted(apiVersion, kind string) bool {
	w := &c.wanted
	if w.Group == "" {
		return kind == w.Kind && apiVersion == w.Version
	}
	n := len(w.Group)
	return kind == w.Kind && len(apiVersion) == n+1+len(w.Version) && apiVersion[:n] == w.Group && apiVersion[n] == '/' && apiVersion[n+1:] == w.Version
}

// object decodes a bare object, or takes the one that the caller holds.
func (r *reading[T]) object(data []byte) (T, error) {
	var held T
	if r.previous != nil {
		if m, ok := r.decoder.Peek(data); ok {
			o, ok := r.previous(object.Key{Namespace: view(m.Namespace), Name: view(m.Name)})
			switch {
			case !ok || string(o.GetUID()) != string(m.UID):
			case r.unchanged(o, m):
				r.stats.reused.Add(1)
				return o, nil
			case !r.noSharing:
				held = o
			}
		}
	}
	o, err := r.decode(data, held)
	if err != nil {
		err = r.otherKind(data, err)
	} else {
		err = r.check(o)
	}
	if err != nil {
		var zero T
		return zero, err
	}
	r.setKind(o)
	r.stats.objects.Add(1)
	return o, nil
}

// decode decodes a bare object, of which held is the version before, or the zero T.
func (r *reading[T]) decode(data []byte, held T) (T, error) {
	if r.instead == nil {
		return r.decoder.Decode(data, held)
	}
	r.data, r.held = data, held
	o, err := r.instead(data, held, r.decodeNow)
	r.data, r.held = nil, *new(T)
	if err == nil && object.IsNil(o) {
		err = errNoObject
	}
	return o, err
}

var errNoObject = errors.New("Decode returned no object")

// decodeData decodes what instead was asked to.
func (r *reading[T]) decodeData(previousData []byte) (T, error) {
	if d, ok := r.decoder.(wire.Updater[T]); ok && previousData != nil {
		return d.Update(r.data, r.held, previousData)
	}
	return r.decoder.Decode(r.data, r.held)
}

// unchanged reports whether o, which has the uid of m, need not be decoded again. For typed objects in protobuf the
// resource version says so: a server encodes what it stores under a version in one way only. Custom resources are
// converted and defaulted when they are read, by rules that change without a new version, and so are their metadata.
func (c *codec[T]) unchanged(o T, m wire.Meta) bool {
	return c.protobuf && c.form == typedForm && len(m.ResourceVersion) > 0 && o.GetResourceVersion() == string(m.ResourceVersion)
}

// view returns b as a string, which is valid as long as b.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// check refuses an object that does not belong to the collection.
func (c *codec[T]) check(o T) error {
	if err := c.scope.check(o); err != nil {
		return err
	}
	return c.checkKind(o.GetObjectKind().GroupVersionKind())
}

// checkKind refuses objects of another kind than the one wanted. An empty one says nothing.
func (c *codec[T]) checkKind(got schema.GroupVersionKind) error {
	if c.wanted.Empty() || got.Empty() || got == c.wanted || c.form == partialForm && got == partialKind {
		return nil
	}
	return &KindError{Got: got, Want: c.wanted}
}

// otherKind returns a KindError in place of err if that is why the object could not be decoded.
func (c *codec[T]) otherKind(data []byte, err error) error {
	var t metav1.TypeMeta
	if c.protobuf || kjson.UnmarshalCaseSensitivePreserveInts(data, &t) != nil {
		return err
	}
	if kindErr := c.checkKind(t.GroupVersionKind()); kindErr != nil {
		return kindErr
	}
	return err
}

// checkListKind is checkKind for the kind of a list.
func (c *codec[T]) checkListKind(got schema.GroupVersionKind) error {
	list := func(kind schema.GroupVersionKind) schema.GroupVersionKind {
		return kind.GroupVersion().WithKind(kind.Kind + "List")
	}
	if c.wanted.Empty() || got == list(c.wanted) || c.form == partialForm && got == list(partialKind) {
		return nil
	}
	return &KindError{Got: got, Want: list(c.wanted)}
}

// setKind makes apiVersion and kind what the codec's form promises.
func (c *codec[T]) setKind(o T) {
	switch kind := o.GetObjectKind(); {
	case c.form == typedForm:
		kind.SetGroupVersionKind(schema.GroupVersionKind{})
	case c.form == partialForm && !c.scope.Kind.Empty():
		kind.SetGroupVersionKind(c.scope.Kind)
	case c.form == partialForm && kind.GroupVersionKind().Empty():
		kind.SetGroupVersionKind(partialKind)
	}
}

// learn checks what a list says it holds, and remembers it for items that do not say so themselves. complete is set
// when the whole list was read.
func (r *reading[T]) learn(head listHead, complete bool) error {
	if head.kind == "" {
		if complete {
			return errNoList
		}
		return nil
	}
	if err := r.checkListKind(schema.FromAPIVersionAndKind(head.apiVersion, head.kind)); err != nil {
		return err
	}
	if d, ok := r.decoder.(interface{ SetDefaultKind(apiVersion, kind string) }); ok {
		h := json.ListHead{TypeMeta: metav1.TypeMeta{APIVersion: head.apiVersion, Kind: head.kind}}
		d.SetDefaultKind(h.ItemKind())
	}
	return nil
}

var errNoList = errors.New("the answer has no kind, so it is not a list")

// openEnvelope takes the envelope off an object in protobuf.
func openEnvelope(data []byte) (proto.Envelope, error) {
	e, err := proto.ParseEnvelope(data)
	if err == nil && len(e.ContentEncoding) > 0 {
		err = fmt.Errorf("unknown content encoding %.64q", e.ContentEncoding)
	}
	return e, err
}

// bookmark reads the metadata of a bookmark. It does not use the decoder, which may trim the annotation that matters.
func (c *codec[T]) bookmark(data []byte) (metav1.Object, error) {
	raw, err := c.open(data)
	if err != nil {
		return nil, err
	}
	var m metav1.PartialObjectMetadata
	if c.protobuf {
		return &m, m.Unmarshal(raw)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &m); err != nil {
		return nil, err
	}
	return &m, c.checkKind(m.GroupVersionKind())
}

// objectError names the object in data, which cannot be used because of err, if it has a key that can be read.
func (c *codec[T]) objectError(data []byte, t EventType, err error) error {
	m := c.identify(data)
	if len(m.Name) == 0 {
		return err
	}
	return &ObjectError{
		Key: object.Key{Namespace: string(m.Namespace), Name: string(m.Name)}, UID: string(m.UID),
		ResourceVersion: string(m.ResourceVersion), Event: t, Err: err,
	}
}

// identify finds the identity of an object that may be broken, as far as it can be read.
func (c *codec[T]) identify(data []byte) wire.Meta {
	if c.protobuf {
		m := startOf(data, 1)
		return wire.Meta{Name: startOf(m, 1), Namespace: startOf(m, 3), UID: startOf(m, 5), ResourceVersion: startOf(m, 6)}
	}
	if m, ok := c.shared.Peek(data); ok {
		return m
	}
	var o struct {
		Metadata struct{ Namespace, Name, UID, ResourceVersion string }
	}
	if kjson.UnmarshalCaseSensitivePreserveInts(data, &o) != nil {
		return wire.Meta{}
	}
	m := o.Metadata
	return wire.Meta{Namespace: []byte(m.Namespace), Name: []byte(m.Name), UID: []byte(m.UID), ResourceVersion: []byte(m.ResourceVersion)}
}

// statusError reads the object of an ERROR event.
func (c *codec[T]) statusError(data []byte) error {
	decode := jsonStatus
	if c.protobuf {
		decode = protobufStatus
	}
	status, err := decode(data)
	if err != nil {
		return fmt.Errorf("ERROR event without a readable Status: %w", err)
	}
	return statusError(status, 0)
}

// countingReader adds what is read to a counter.
type countingReader struct {
	io.Reader
	count *atomic.Uint64
}

func (r countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.count.Add(uint64(n))
	return n, err
}
