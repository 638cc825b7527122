package source

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

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
	partialForm                  // *metav1.PartialObjectMetadata, with the target's kind or the one that the server sent
)

// codec reads one collection in one encoding. Its decoder lives as long as the source, so that the objects of
// watches share memory with those of lists. It may be used by several goroutines, which then take turns.
type codec[T object.Object] struct {
	target   Target
	form     form
	protobuf bool
	// wanted is the kind that objects must be of; empty allows any.
	wanted     schema.GroupVersionKind
	apiVersion string // of wanted

	mu      sync.Mutex // held until a decoded object is complete
	decoder wire.Decoder[T]
	keeper  keeper // the decoder, if it is one; else nil

	stats *counters
}

func newCodec[T object.Object](target Target, f form, wanted schema.GroupVersionKind, decoder wire.Decoder[T], stats *counters) *codec[T] {
	c := &codec[T]{
		target: target, form: f, wanted: wanted, apiVersion: wanted.GroupVersion().String(), decoder: decoder, stats: stats,
	}
	c.keeper, _ = decoder.(keeper)
	return c
}

// counters are a source's Stats as they grow.
type counters struct{ bytes, objects, reused atomic.Uint64 }

func (c *codec[T]) list(body io.Reader) listReader {
	if c.protobuf {
		return newProtobufList(body, c.target.MaxObjectBytes)
	}
	return jsonList{json.NewListReader(body, c.target.MaxObjectBytes)}
}

func (c *codec[T]) events(body io.Reader) eventReader {
	if c.protobuf {
		return newFrameReader(body, c.target.MaxObjectBytes)
	}
	return json.NewEventReader(body, c.target.MaxObjectBytes)
}

// item decodes an item of a list, or takes the known one.
func (c *codec[T]) item(data []byte, known Known[T]) (T, error) { return c.object(data, known) }

// event decodes the object of a watch event, or takes the known one.
func (c *codec[T]) event(data []byte, known Known[T]) (T, error) {
	if c.protobuf {
		e, err := openEnvelope(data)
		if err == nil && !c.wanted.Empty() && (string(e.Kind) != c.wanted.Kind || string(e.APIVersion) != c.apiVersion) {
			err = c.wrongKind(schema.FromAPIVersionAndKind(string(e.APIVersion), string(e.Kind)))
		}
		if err != nil {
			var zero T
			return zero, err
		}
		data = e.Raw
	}
	return c.object(data, known)
}

// object decodes a bare object, or takes the known one.
func (c *codec[T]) object(data []byte, known Known[T]) (T, error) {
	if known != nil {
		if m, ok := c.decoder.Peek(data); ok {
			if o, ok := known(m.Namespace, m.Name, m.UID, m.ResourceVersion); ok {
				c.stats.reused.Add(1)
				if c.keeper != nil {
					c.keeper.Keep(m.UID)
				}
				return o, nil
			}
		}
	}
	o, err := c.decode(data)
	if err != nil {
		var zero T
		return zero, err
	}
	c.stats.objects.Add(1)
	return o, nil
}

// decode decodes an object, checks it and sets its kind. All of that is done before another goroutine may decode the next
// version, for which the decoder looks at this one.
func (c *codec[T]) decode(data []byte) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, err := c.decoder.Decode(data)
	if err == nil {
		err = c.check(o)
	}
	if err == nil {
		c.setKind(o)
	}
	return o, err
}

// keeper is a decoder that keeps the last value of each object, to take over from it what has not changed.
type keeper interface {
	Forget(uid string)
	BeginList()
	Keep(uid []byte)
	EndList()
}

// forget tells the decoder that an object is gone.
func (c *codec[T]) forget(o T) {
	if c.keeper != nil {
		c.keeper.Forget(string(o.GetUID()))
	}
}

// begin tells the decoder that all objects will be told of again, end that they have been.
func (c *codec[T]) begin() {
	if c.keeper != nil {
		c.keeper.BeginList()
	}
}

func (c *codec[T]) end() {
	if c.keeper != nil {
		c.keeper.EndList()
	}
}

// check refuses an object that does not belong to the collection.
func (c *codec[T]) check(o T) error {
	if err := checkName(o); err != nil {
		return err
	}
	if ns := c.target.Namespace; ns != "" && o.GetNamespace() != ns {
		return fmt.Errorf("object %s is not in namespace %q", object.KeyOf(o), ns)
	}
	if c.wanted.Empty() {
		return nil
	}
	if kind := o.GetObjectKind().GroupVersionKind(); kind != c.wanted && !kind.Empty() {
		return fmt.Errorf("object %s: %w", object.KeyOf(o), c.wrongKind(kind))
	}
	return nil
}

func (c *codec[T]) wrongKind(got schema.GroupVersionKind) error {
	return fmt.Errorf("kind is %v where %v is wanted; if the server is right, set Target.Kind", got, c.wanted)
}

// setKind makes apiVersion and kind what the codec's form promises.
func (c *codec[T]) setKind(o T) {
	switch kind := o.GetObjectKind(); {
	case c.form == typedForm:
		kind.SetGroupVersionKind(schema.GroupVersionKind{})
	case c.form == partialForm && !c.target.Kind.Empty():
		kind.SetGroupVersionKind(c.target.Kind)
	case c.form == partialForm && kind.GroupVersionKind().Empty():
		kind.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	}
}

// learn checks what a list says it holds, and remembers it for items that do not say so themselves. complete is set
// when the whole list was read.
func (c *codec[T]) learn(head listHead, complete bool) error {
	if head.kind == "" {
		if complete {
			return fmt.Errorf("list %v: %w", c.target, errNoList)
		}
		return nil
	}
	if got := schema.FromAPIVersionAndKind(head.apiVersion, head.kind); !c.wanted.Empty() &&
		got != c.wanted.GroupVersion().WithKind(c.wanted.Kind+"List") {
		return fmt.Errorf("list %v: the list's %w", c.target, c.wrongKind(got))
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

// bookmark reads the metadata of a bookmark. It does not use the decoder, which may trim the annotation that matters.
func (c *codec[T]) bookmark(data []byte) (metav1.Object, error) {
	var m metav1.PartialObjectMetadata
	if !c.protobuf {
		err := kjson.UnmarshalCaseSensitivePreserveInts(data, &m)
		return &m, err
	}
	e, err := openEnvelope(data)
	if err == nil {
		err = m.Unmarshal(e.Raw)
	}
	return &m, err
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
