package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/json"
	"github.com/tidings/tidings/internal/wire/proto"
	"github.com/tidings/tidings/object"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

// eventReader cuts the body of a watch into events.
type eventReader interface {
	// Next returns the type of the next event and its object, encoded; the bytes are valid until the next call.
	// io.EOF is a clean end. An error that wraps errEvent or json.ErrEvent is about this event only.
	Next() (eventType string, object []byte, err error)
	// Buffered reports whether the next event has arrived in full, so that Next does not wait.
	Buffered() bool
}

// listReader cuts the body of a list into items.
type listReader interface {
	// Next returns the next item, encoded; the bytes are valid until the next call. io.EOF comes after the last.
	Next() ([]byte, error)
	// head returns what is known of the list itself: all of it after io.EOF.
	head() listHead
}

// listHead is what a list says about itself.
type listHead struct {
	apiVersion, kind          string
	resourceVersion, nextPage string
}

// form is what T is, as far as the kind of its objects goes.
type form int

const (
	typedForm        form = iota // a Go struct, whose objects leave the source without apiVersion and kind
	unstructuredForm             // *unstructured.Unstructured, always with apiVersion and kind
	partialForm                  // *metav1.PartialObjectMetadata, with the scope's kind or the one that the server sent
)

// codec reads one collection in one encoding. Its decoder lives as long as the source, so that the objects of
// watches share memory with those of lists. It may be used by several goroutines, which then take turns.
type codec[T object.Object] struct {
	scope    Scope
	form     form
	protobuf bool
	// wanted is the kind that objects must be of; empty allows any.
	wanted     schema.GroupVersionKind
	apiVersion string // of wanted
	noSharing  bool

	mu      sync.Mutex // held until a decoded object is complete
	decoder wire.Decoder[T]

	stats *counters
}

func (h *HTTP[T]) newCodec(decoder wire.Decoder[T], noSharing bool) *codec[T] {
	return &codec[T]{
		scope: h.scope, form: h.form, wanted: h.kind, apiVersion: h.kind.GroupVersion().String(), noSharing: noSharing, decoder: decoder, stats: &h.stats,
	}
}

// counters are a source's Stats as they grow.
type counters struct{ bytes, objects, reused, corrupted atomic.Uint64 }

func (c *codec[T]) list(body io.Reader) listReader {
	if c.protobuf {
		return newProtobufList(body, c.scope.MaxObjectBytes)
	}
	return jsonList{json.NewListReader(body, c.scope.MaxObjectBytes)}
}

func (c *codec[T]) events(body io.Reader) eventReader {
	if c.protobuf {
		return newFrameReader(body, c.scope.MaxObjectBytes)
	}
	return json.NewEventReader(body, c.scope.MaxObjectBytes)
}

// readList reads the body of a list.
func (c *codec[T]) readList(ctx context.Context, body io.Reader, opts ListOptions[T], each func(T) error) (ListResult, error) {
	items := c.list(body)
	c.decoder.Recheck() // within the list the decoder sees to that by itself
	for first := true; ; first = false {
		data, err := items.Next()
		if err != nil && err != io.EOF {
			return ListResult{}, withCause(ctx, fmt.Errorf("list %w", bodyError(err, c.scope)))
		}
		head := items.head()
		if first || err == io.EOF {
			if err := c.learn(head, err == io.EOF); err != nil {
				return ListResult{}, err
			}
		}
		if err == io.EOF {
			return ListResult{ResourceVersion: head.resourceVersion, Continue: head.nextPage}, nil
		}
		if err := c.readItem(data, opts, each); err != nil {
			return ListResult{}, err
		}
	}
}

// readItem reads an item of a list.
func (c *codec[T]) readItem(data []byte, opts ListOptions[T], each func(T) error) error {
	o, err := c.object(data, opts.Previous, 0)
	if err == nil {
		return each(o)
	}
	if bad, ok := errors.AsType[*ObjectError](err); ok && opts.Skip != nil {
		opts.Skip(bad)
		return nil
	}
	return fmt.Errorf("list %v: %w", c.scope, err)
}

// event decodes the object of a watch event.
func (c *codec[T]) event(data []byte, previous Previous[T], t EventType) (T, error) {
	var zero T
	if !c.protobuf {
		return c.object(data, previous, t)
	}
	e, err := openEnvelope(data)
	if err != nil {
		return zero, err
	}
	if err := c.checkKind(schema.FromAPIVersionAndKind(string(e.APIVersion), string(e.Kind))); err != nil {
		return zero, c.objectError(e.Raw, zero, t, err)
	}
	return c.object(e.Raw, previous, t)
}

// object decodes a bare object, or hands out the previous one if that is the same. An error is an *ObjectError where the key can
// be read.
func (c *codec[T]) object(data []byte, previous Previous[T], t EventType) (T, error) {
	var old T
	if previous != nil && (c.protobuf || !c.noSharing) {
		var same bool
		if old, same = c.previous(data, previous); same && c.protobuf {
			c.stats.reused.Add(1)
			return old, nil
		}
	}
	if c.noSharing {
		old = *new(T) // the decoder's result is the caller's to write to
	}
	o, err := c.decode(data, old)
	if err != nil {
		var zero T
		return zero, c.objectError(data, o, t, err)
	}
	c.stats.objects.Add(1)
	return o, nil
}

// previous finds an earlier version of the object in data, and reports whether it is the same version.
func (c *codec[T]) previous(data []byte, previous Previous[T]) (old T, same bool) {
	var zero T
	m, ok := c.decoder.Peek(data)
	if !ok {
		return zero, false
	}
	// The key is only looked up with: the bytes are not kept, nor written to while it lives.
	old, ok = previous(object.Key{Namespace: text(m.Namespace), Name: text(m.Name)})
	if !ok || object.IsNil(old) || len(m.UID) == 0 || string(old.GetUID()) != string(m.UID) {
		return zero, false
	}
	return old, len(m.ResourceVersion) > 0 && old.GetResourceVersion() == string(m.ResourceVersion)
}

// text returns b as a string that shares its memory.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// decode decodes an object, checks it and sets its kind. All of that is done before another goroutine may decode the next
// version, for which the decoder looks at this one. With an error it may return the object that was refused.
func (c *codec[T]) decode(data []byte, old T) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, err := c.decoder.Decode(data, old)
	if err == nil {
		err = c.check(o)
	}
	if err == nil {
		c.setKind(o)
	}
	return o, err
}

// objectError names the object that err is about: what was decoded, or else what can be read of the data. Without a name there is
// no saying, and err is returned as it is.
func (c *codec[T]) objectError(data []byte, o T, t EventType, err error) error {
	bad := &ObjectError{Event: t, Err: err}
	if m, ok := c.decoder.Peek(data); ok {
		bad.Key = object.Key{Namespace: string(m.Namespace), Name: string(m.Name)}
		bad.UID, bad.ResourceVersion = string(m.UID), string(m.ResourceVersion)
	} else if !object.IsNil(o) {
		bad.Key, bad.UID, bad.ResourceVersion = object.KeyOf(o), string(o.GetUID()), o.GetResourceVersion()
	}
	if bad.Key.Name == "" {
		return err
	}
	return bad
}

// check refuses an object that does not belong to the collection.
func (c *codec[T]) check(o T) error {
	if err := checkName(o); err != nil {
		return err
	}
	if ns := c.scope.Namespace; ns != "" && o.GetNamespace() != ns {
		return fmt.Errorf("it is not in namespace %q", ns)
	}
	return c.checkKind(o.GetObjectKind().GroupVersionKind())
}

// checkKind refuses what says it is of another kind.
func (c *codec[T]) checkKind(got schema.GroupVersionKind) error {
	if c.wanted.Empty() || got.Empty() || got == c.wanted {
		return nil
	}
	return &KindError{Got: got, Want: c.wanted}
}

// setKind makes apiVersion and kind what the codec's form promises.
func (c *codec[T]) setKind(o T) {
	switch kind := o.GetObjectKind(); {
	case c.form == typedForm:
		kind.SetGroupVersionKind(schema.GroupVersionKind{})
	case c.form == partialForm && !c.scope.Kind.Empty():
		kind.SetGroupVersionKind(c.scope.Kind)
	case c.form == partialForm && kind.GroupVersionKind().Empty():
		kind.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	}
}

// learn checks what a list says it holds, and remembers it for items that do not say so themselves. complete is set
// when the whole list was read.
func (c *codec[T]) learn(head listHead, complete bool) error {
	if head.kind == "" {
		if complete {
			return fmt.Errorf("list %v: %w", c.scope, errNoList)
		}
		return nil
	}
	if got := schema.FromAPIVersionAndKind(head.apiVersion, head.kind); !c.wanted.Empty() &&
		got != c.wanted.GroupVersion().WithKind(c.wanted.Kind+"List") {
		return fmt.Errorf("list %v: the list's %w", c.scope, &KindError{Got: got, Want: c.wanted})
	}
	if d, ok := c.decoder.(interface{ SetDefaultKind(apiVersion, kind string) }); ok {
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

// bookmark reads the metadata of a bookmark. It does not use the decoder, which may trim the annotation that matters. A bookmark
// bears the kind of the collection, so it tells a wrong one even where there are no objects.
func (c *codec[T]) bookmark(data []byte) (metav1.Object, error) {
	var m metav1.PartialObjectMetadata
	if !c.protobuf {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &m); err != nil {
			return nil, err
		}
		return &m, c.checkKind(m.GroupVersionKind())
	}
	e, err := openEnvelope(data)
	if err != nil {
		return nil, err
	}
	if err := c.checkKind(schema.FromAPIVersionAndKind(string(e.APIVersion), string(e.Kind))); err != nil {
		return nil, err
	}
	return &m, m.Unmarshal(e.Raw)
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

// jsonList reads a list in JSON.
type jsonList struct{ *json.ListReader }

func (l jsonList) head() listHead {
	h := l.Head()
	return listHead{apiVersion: h.APIVersion, kind: h.Kind, resourceVersion: h.ResourceVersion, nextPage: h.Continue}
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
