package source

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/redact"
	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/json"
	"github.com/tidings/tidings/internal/wire/proto"
	"github.com/tidings/tidings/object"
)

// form distinguishes types of objects by how their apiVersion and kind are handled.
type form int

const (
	typedForm        form = iota // a Go struct; the source clears apiVersion and kind
	unstructuredForm             // *unstructured.Unstructured, always with apiVersion and kind
	partialForm                  // *metav1.PartialObjectMetadata, with the scope's kind or the one that the server sent
)

// partialKind is the kind of objects that servers send as metadata only.
var partialKind = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")

// format reads one collection in one encoding. Its decoders live as long as the source, so that objects from
// watches share memory with those from lists. It may be used by several goroutines.
type format[T object.Object] struct {
	scope    Scope
	selects  *selection // of the source
	form     form
	protobuf bool
	// wanted is the required kind of objects; empty allows any.
	wanted schema.GroupVersionKind
	stats  *counters
	// newDecoder has succeeded before, so it cannot fail.
	newDecoder func(noSharing bool) (wire.Decoder[T], error)
	shared     wire.Decoder[T]

	mu       sync.Mutex      // guards unshared
	unshared wire.Decoder[T] // decodes objects that share nothing; created on first use

	singles sync.Pool // of decoders of single objects, which share nothing
}

// counters are the live counters behind a source's Stats.
type counters struct{ bytes, objects, reused, corrupted atomic.Uint64 }

// decoder returns the decoder for objects that share parts, or for those that must not.
func (c *format[T]) decoder(noSharing bool) wire.Decoder[T] {
	if !noSharing {
		return c.shared
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unshared == nil {
		c.unshared, _ = c.newDecoder(true)
	}
	return c.unshared
}

// wireStats adds the statistics of the format's decoders to sum.
func (c *format[T]) wireStats(sum wire.Stats) wire.Stats {
	c.mu.Lock()
	alone := c.unshared
	c.mu.Unlock()
	sum = sum.Plus(c.shared.Stats())
	if alone != nil {
		sum = sum.Plus(alone.Stats())
	}
	return sum
}

// objectReader decodes the objects of one list or watch, or has them decoded by the one who will hold them.
type objectReader[T object.Object] struct {
	*format[T]
	decoder   wire.Decoder[T]
	shard     *shardFilter
	by        intake.Decoder[T]
	reuse     bool // earlier states may be asked for
	noSharing bool
	arrived   intake.Encoded[T] // the present object
}

func (c *format[T]) newObjectReader(by intake.Decoder[T], reuse, noSharing bool) *objectReader[T] {
	d := c.decoder(noSharing)
	d.Recheck()
	return c.reader(d, by, reuse, noSharing)
}

func (c *format[T]) reader(d wire.Decoder[T], by intake.Decoder[T], reuse, noSharing bool) *objectReader[T] {
	r := &objectReader[T]{format: c, decoder: d, by: by, reuse: reuse, noSharing: noSharing}
	r.shard = newShardFilter(c.scope.Shard)
	r.arrived.Stable = c.protobuf && c.form == typedForm
	r.arrived.Exact = r.arrived.Stable && len(c.scope.Trim) == 0 && !noSharing
	r.arrived.Decode = r.decode
	return r
}

// item decodes an item of a list, or returns the caller's object if it is unchanged.
func (r *objectReader[T]) item(data []byte) (intake.Received[T], error) {
	o, err := r.object(data)
	if err != nil {
		return o, r.objectError(data, 0, err)
	}
	if r.selects != nil && !o.Unchanged {
		r.selects.listed(r.asSent(o.Object, data))
	}
	return o, nil
}

// event decodes the object of a watch event, or returns the caller's object if it is unchanged, and what the event means
// for the collection.
func (r *objectReader[T]) event(data []byte, t EventType) (intake.Received[T], EventType, error) {
	raw, err := r.open(data)
	if err == nil {
		var o intake.Received[T]
		if o, err = r.object(raw); err == nil {
			if r.selects != nil && !o.Unchanged {
				t = r.selects.selected(t, r.asSent(o.Object, raw))
			}
			return o, t, nil
		}
	}
	return intake.Received[T]{}, t, r.objectError(raw, t, err)
}

// open removes the envelope of a watch event's object, which exists in protobuf only, and checks the kind in it.
func (c *format[T]) open(data []byte) ([]byte, error) {
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

// isWanted reports whether the kind is exactly the wanted one. It is a cheaper check than checkKind.
func (c *format[T]) isWanted(apiVersion, kind string) bool {
	w := &c.wanted
	if w.Group == "" {
		return kind == w.Kind && apiVersion == w.Version
	}
	n := len(w.Group)
	return kind == w.Kind && len(apiVersion) == n+1+len(w.Version) && apiVersion[:n] == w.Group && apiVersion[n] == '/' && apiVersion[n+1:] == w.Version
}

// object has an object without envelope decoded, unless it is unchanged.
func (r *objectReader[T]) object(data []byte) (intake.Received[T], error) {
	e := &r.arrived
	e.Data, e.Reuse = data, false
	if r.reuse {
		if m, ok := r.decoder.Peek(data); ok {
			e.Reuse, e.Key = true, object.Key{Namespace: wire.View(m.Namespace), Name: wire.View(m.Name)}
			e.UID, e.Version = types.UID(wire.View(m.UID)), wire.View(m.ResourceVersion)
		}
	}
	got, err := r.by.Decode(e)
	e.Data, e.Key, e.UID, e.Version = nil, object.Key{}, "", "" // otherwise an idle watch keeps its buffer
	switch {
	case err != nil:
		err = r.otherKind(data, err)
	case got.Unchanged:
		r.stats.reused.Add(1)
		return got, nil
	default:
		err = r.check(got.Object)
	}
	if err != nil {
		return intake.Received[T]{}, err
	}
	r.setKind(got.Object)
	r.stats.objects.Add(1)
	return got, nil
}

// decode decodes the present object: see intake.Encoded.
func (r *objectReader[T]) decode(previous T, previousData []byte) (T, error) {
	if r.noSharing {
		previous, previousData = *new(T), nil
	}
	if d, ok := r.decoder.(wire.Patcher[T]); ok && previousData != nil {
		return d.Update(r.arrived.Data, previous, previousData)
	}
	return r.decoder.Decode(r.arrived.Data, previous)
}

// check rejects an object that does not belong to the collection.
func (c *format[T]) check(o T) error {
	if err := c.scope.check(o); err != nil {
		return err
	}
	return c.checkKind(o.GetObjectKind().GroupVersionKind())
}

// checkKind rejects kinds other than the wanted one. An empty kind is accepted.
func (c *format[T]) checkKind(got schema.GroupVersionKind) error {
	if c.wanted.Empty() || got.Empty() || got == c.wanted || c.form == partialForm && got == partialKind {
		return nil
	}
	return &KindError{Got: got, Want: c.wanted}
}

// otherKind returns a KindError instead of err if the object is of another kind.
func (c *format[T]) otherKind(data []byte, err error) error {
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
func (c *format[T]) checkListKind(got schema.GroupVersionKind) error {
	list := func(kind schema.GroupVersionKind) schema.GroupVersionKind {
		return kind.GroupVersion().WithKind(kind.Kind + "List")
	}
	if c.wanted.Empty() || got == list(c.wanted) || c.form == partialForm && got == list(partialKind) {
		return nil
	}
	return &KindError{Got: got, Want: list(c.wanted)}
}

// setKind sets or clears apiVersion and kind as the format's form requires.
func (c *format[T]) setKind(o T) {
	switch kind := o.GetObjectKind(); {
	case c.form == typedForm:
		kind.SetGroupVersionKind(schema.GroupVersionKind{})
	case c.form == partialForm && !c.scope.Kind.Empty():
		kind.SetGroupVersionKind(c.scope.Kind)
	case c.form == partialForm && kind.GroupVersionKind().Empty():
		kind.SetGroupVersionKind(partialKind)
	}
}

// checkListHead checks the list's kind and derives from it the kind for items that do not state
// their own. complete is set when the whole list has been read.
func (r *objectReader[T]) checkListHead(head listHead, complete bool) error {
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

var errNoList = errors.New("the response has no kind, so it is not a list")

// openEnvelope parses the envelope of an object in protobuf.
func openEnvelope(data []byte) (proto.Envelope, error) {
	e, err := proto.ParseEnvelope(data)
	if err == nil && len(e.ContentEncoding) > 0 {
		err = fmt.Errorf("unknown content encoding %s", wordOrSize(string(e.ContentEncoding)))
	}
	return e, err
}

// bookmark decodes the metadata of a bookmark. It does not use the decoder, which might trim the
// initial-events-end annotation.
func (c *format[T]) bookmark(data []byte) (metav1.Object, error) {
	raw, err := c.open(data)
	if err != nil {
		return nil, err
	}
	m, err := c.metadata(raw)
	if err != nil {
		return nil, err
	}
	if c.protobuf {
		return m, nil // the kind is that of the envelope
	}
	return m, c.checkKind(m.GroupVersionKind())
}

// metadata decodes the metadata of an object without envelope, untrimmed.
func (c *format[T]) metadata(raw []byte) (*metav1.PartialObjectMetadata, error) {
	var m metav1.PartialObjectMetadata
	if c.protobuf {
		return &m, m.Unmarshal(raw)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &m); err != nil {
		return nil, redact.Decoding(err)
	}
	return &m, nil
}

// asSent returns the object with the labels that it was sent with.
func (c *format[T]) asSent(o T, raw []byte) metav1.Object {
	if !c.scope.trimsLabels() {
		return o
	}
	m, err := c.metadata(raw)
	if err != nil {
		return o // which was decoded, so this does not happen
	}
	return m
}

// objectError returns an ObjectError for the object in data if its key can be read, and err otherwise.
func (c *format[T]) objectError(data []byte, t EventType, err error) error {
	m := c.identify(data)
	if len(m.Name) == 0 {
		return err
	}
	return &ObjectError{
		Key: object.Key{Namespace: string(m.Namespace), Name: string(m.Name)}, UID: string(m.UID),
		ResourceVersion: string(m.ResourceVersion), Event: t, Err: err,
	}
}

// identify returns as much of the identity of a possibly malformed object as can be read.
func (c *format[T]) identify(data []byte) wire.Meta {
	if c.protobuf {
		m := proto.StartOf(data, 1)
		return wire.Meta{
			Name: proto.StartOf(m, 1), Namespace: proto.StartOf(m, 3), UID: proto.StartOf(m, 5),
			ResourceVersion: proto.StartOf(m, 6),
		}
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

// statusError returns the error in the object of an ERROR event.
func (c *format[T]) statusError(data []byte) error {
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

// countingReader counts the bytes read.
type countingReader struct {
	io.Reader
	count *atomic.Uint64
}

func (r countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.count.Add(uint64(n))
	return n, err
}
