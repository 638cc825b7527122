package source

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/object"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
)

// HTTP is a ListerWatcher that speaks to an API server by itself. Make one with NewHTTP.
//
// Bodies are read as they arrive: a list never exists as a whole, and a watch starts no goroutine of its own.
// Objects of a Go struct type have no apiVersion and kind, as with client-go's typed clients; unstructured objects
// and PartialObjectMetadata have them, also where a list leaves them out of its items.
//
// An answer that is not 200 OK is an *apierrors.StatusError, with the server's Retry-After if it sent one. A body
// of another type is a *ContentTypeError, an object beyond the limit a *TooLargeError, and a body that breaks off is
// the connection's error or wraps io.ErrUnexpectedEOF. An object that cannot be understood or belongs elsewhere is an
// *ObjectError: in a list it is skipped, see ListOptions.Skip, and in a watch it is an Invalid event. A collection of another
// kind is a *KindError.
//
// Objects in protobuf, so of built-in types, that Previous returns with the same uid and resource version are handed out again.
// Those in JSON are decoded in any case: the API server converts and defaults custom resources when it sends them, so their
// contents can change without a new version.
type HTTP[T object.Object] struct {
	client *Client
	scope  Scope
	base   *url.URL
	accept string
	form   form
	kind   schema.GroupVersionKind // that objects must be of; empty allows any
	shared *codecs[T]
	stats  counters

	onStrayWrite atomic.Pointer[func(field string)]

	mu    sync.Mutex
	alone *codecs[T] // for callers that write to the objects; made when it is asked for
}

// codecs are what reads the encodings of a server.
type codecs[T object.Object] struct {
	json     *codec[T]
	protobuf *codec[T] // nil if T has no protobuf encoding
}

// NewHTTP makes a source of the scope's objects. T decides the encoding: protobuf for types that have it and
// *metav1.PartialObjectMetadata (for which the server sends metadata only), JSON for *unstructured.Unstructured and
// every other Go struct. What the server answers with is read in any case. No request is made yet.
// An error says what is wrong with the scope or with T.
func NewHTTP[T object.Object](client *Client, scope Scope) (*HTTP[T], error) {
	scope, err := scope.complete()
	if err != nil {
		return nil, err
	}
	h := &HTTP[T]{client: client, scope: scope, base: client.collectionURL(scope.Resource, scope.Namespace)}
	if err := h.prepare(); err != nil {
		return nil, fmt.Errorf("source: %v: %w", scope, err)
	}
	return h, nil
}

// prepare finds out what T is and how it is read.
func (h *HTTP[T]) prepare() (err error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("cannot decode into %v; want a pointer to a struct", t)
	}
	h.form, h.kind = formOf[T](), h.scope.Kind
	switch {
	case h.form == typedForm && h.kind.Empty():
		h.kind = h.scope.Resource.GroupVersion().WithKind(t.Elem().Name())
	case h.form == partialForm:
		h.kind = schema.GroupVersionKind{} // the server may send either kind
	}
	if h.shared, err = h.newCodecs(false); err != nil {
		return err
	}
	h.accept = accept(h.form, h.shared.protobuf != nil)
	return nil
}

func (h *HTTP[T]) newCodecs(noSharing bool) (*codecs[T], error) {
	options := wire.Options{Trim: h.scope.Trim, NoSharing: noSharing, OnCorrupt: h.strayWrite, MaxTableBytes: h.scope.MaxSharedBytes}
	fromJSON, err := jsonDecoder[T](h.form, options)
	if err != nil {
		return nil, err
	}
	fromProtobuf, err := protobufDecoder[T](options)
	if err != nil {
		return nil, err
	}
	cs := &codecs[T]{json: h.newCodec(fromJSON, noSharing)}
	if fromProtobuf != nil {
		cs.protobuf = h.newCodec(fromProtobuf, noSharing)
		cs.protobuf.protobuf = true
	}
	return cs, nil
}

// codecs returns what reads objects that the caller may write to, or others.
func (h *HTTP[T]) codecs(noSharing bool) (*codecs[T], error) {
	if !noSharing {
		return h.shared, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.alone != nil {
		return h.alone, nil
	}
	var err error
	h.alone, err = h.newCodecs(true)
	return h.alone, err
}

// OnStrayWrite sets a function that is called when a part of objects, shared with others, turns out to have been written to. Field
// is its dotted name. No object that is decoded later has that part. It is called on the goroutine that reads.
func (h *HTTP[T]) OnStrayWrite(fn func(field string)) { h.onStrayWrite.Store(&fn) }

func (h *HTTP[T]) strayWrite(field string) {
	h.stats.corrupted.Add(1)
	if fn := h.onStrayWrite.Load(); fn != nil {
		(*fn)(field)
	}
}

func formOf[T object.Object]() form {
	var zero T
	switch any(zero).(type) {
	case *unstructured.Unstructured:
		return unstructuredForm
	case *metav1.PartialObjectMetadata:
		return partialForm
	default:
		return typedForm
	}
}

// List implements ListerWatcher.
func (h *HTTP[T]) List(ctx context.Context, opts ListOptions[T], each func(T) error) (ListResult, error) {
	if h.client.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, h.client.timeout, errTimeout)
		defer cancel()
	}
	response, err := h.client.get(ctx, *h.base, listQuery(h.scope, opts), h.accept)
	if err != nil {
		return ListResult{}, err
	}
	defer response.Body.Close()
	c, err := h.codecFor(response, opts.NoSharing)
	if err != nil {
		return ListResult{}, err
	}
	return c.readList(ctx, countingReader{response.Body, &h.stats.bytes}, opts, each)
}

// Watch implements ListerWatcher. Next returns ErrClosed after Close, and an error that wraps the cause of ctx's end
// after that.
func (h *HTTP[T]) Watch(ctx context.Context, opts WatchOptions[T]) (Stream[T], error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := h.limitStart(cancel)
	response, err := h.client.get(ctx, *h.base, watchQuery(h.scope, opts), h.accept)
	if !stop() && err == nil {
		response.Body.Close()
		err = errTimeout
	}
	if err != nil {
		cancel(err)
		return nil, err
	}
	c, err := h.codecFor(response, opts.NoSharing)
	if err != nil {
		cancel(err)
		response.Body.Close()
		return nil, err
	}
	return &stream[T]{
		ctx: ctx, cancel: cancel, body: response.Body, codec: c, previous: opts.Previous, initial: opts.SendInitialEvents,
		events: c.events(countingReader{response.Body, &h.stats.bytes}),
	}, nil
}

// limitStart cancels the request unless the result is called within the client's timeout. The result reports
// whether it was.
func (h *HTTP[T]) limitStart(cancel context.CancelCauseFunc) (stop func() bool) {
	if h.client.timeout <= 0 {
		return func() bool { return true }
	}
	return time.AfterFunc(h.client.timeout, func() { cancel(errTimeout) }).Stop
}

// codecFor picks what reads the answer.
func (h *HTTP[T]) codecFor(response *http.Response, noSharing bool) (*codec[T], error) {
	cs, err := h.codecs(noSharing)
	if err != nil {
		return nil, err
	}
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")) // a broken one is no type that is known
	switch {
	case media == jsonType:
		return cs.json, nil
	case media == protobufType && cs.protobuf != nil:
		return cs.protobuf, nil
	}
	return nil, fmt.Errorf("%v: %w", h.scope, newContentTypeError(response))
}

// Stats returns what the source has done so far.
func (h *HTTP[T]) Stats() Stats {
	return Stats{
		Bytes: h.stats.bytes.Load(), Objects: h.stats.objects.Load(), Reused: h.stats.reused.Load(), Corrupted: h.stats.corrupted.Load(),
	}
}

// SharedBytes returns what the source takes to remember parts that objects have in common. It is not for every change.
func (h *HTTP[T]) SharedBytes() int64 { return int64(h.WireStats().TableBytes) }

// WireStats returns what the decoders of both encodings have done so far, together.
func (h *HTTP[T]) WireStats() wire.Stats {
	stats := h.shared.json.decoder.Stats()
	if h.shared.protobuf != nil {
		stats = addStats(stats, h.shared.protobuf.decoder.Stats())
	}
	return stats
}
