package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/proto"
	"github.com/tidings/tidings/object"
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
// An object of a Go struct type that comes in protobuf with the uid and the resource version of the one that Previous
// returned is that one. All others are decoded again, even if their resource version is the same: a server converts
// and defaults custom resources when they are read, and a changed schema changes what it sends under an old version.
// Whoever wants to know whether an object has changed has to compare it.
//
// Objects share their equal parts, unless NoSharing is set, so they are read-only. If someone writes to one all the same, and
// so to what it shares with others, OnStrayWrite tells; no object that comes later has the part.
//
// An answer that is not 200 OK is an *apierrors.StatusError, with the server's Retry-After if it sent one. A body
// of another type is a *ContentTypeError, an object beyond the limit a *TooLargeError, a collection of another kind a
// *KindError, and a body that breaks off is the connection's error or wraps io.ErrUnexpectedEOF. An object that cannot be
// understood, has no name or belongs elsewhere is skipped by a list if ListOptions.Skip is set, and ends it otherwise;
// in a watch it is an Invalid event. Warnings of the server go to the handler of the client's rest.Config.
type HTTP[T object.Object] struct {
	typ    reflect.Type // of the objects
	client *Client
	scope  Scope
	base   *url.URL
	accept string // for a watch
	// acceptList is for a list.
	acceptList string
	json       *codec[T]
	protobuf   *codec[T] // nil if T has no protobuf encoding
	stats      counters

	onStrayWrite atomic.Pointer[func(field string)]
}

// NewHTTP makes a source of the scope's objects. T decides the encoding: protobuf for types that have it and
// *metav1.PartialObjectMetadata (for which the server sends metadata only), JSON for *unstructured.Unstructured and
// every other Go struct. What the server answers with is read in any case. No request is made yet.
// An error says what is wrong with the scope or with T.
func NewHTTP[T object.Object](client *Client, scope Scope) (*HTTP[T], error) {
	return newHTTP[T](client, scope, reflect.TypeFor[T]())
}

// NewHTTPLike is NewHTTP for a type that is known at run time only, that of the example.
func NewHTTPLike(client *Client, scope Scope, example object.Object) (*HTTP[object.Object], error) {
	if example == nil {
		return nil, fmt.Errorf("source: %v: the example is nil", scope)
	}
	return newHTTP[object.Object](client, scope, reflect.TypeOf(example))
}

// newHTTP makes a source of objects of a type, which is T or has it as an interface.
func newHTTP[T object.Object](client *Client, scope Scope, typ reflect.Type) (*HTTP[T], error) {
	scope, err := scope.complete()
	if err != nil {
		return nil, err
	}
	if scope.Resource.Resource == "" || scope.Resource.Version == "" {
		return nil, errors.New("source: Scope.Resource needs a resource and a version, such as {apps, v1, deployments}")
	}
	h := &HTTP[T]{typ: typ, client: client, scope: scope, base: client.collectionURL(scope.Resource, scope.Namespace)}
	if err := h.makeCodecs(); err != nil {
		return nil, fmt.Errorf("source: %v: %w", scope, err)
	}
	return h, nil
}

func (h *HTTP[T]) makeCodecs() (err error) {
	if h.typ.Kind() != reflect.Pointer || h.typ.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("cannot decode into %v; want a pointer to a struct", h.typ)
	}
	form, kind := formOf(h.typ), h.scope.Kind
	if form == typedForm && kind.Empty() {
		kind = h.scope.Resource.GroupVersion().WithKind(h.typ.Elem().Name())
	}
	h.json = &codec[T]{scope: h.scope, form: form, wanted: kind, stats: &h.stats, newDecoder: h.newJSON}
	if h.json.shared, err = h.newJSON(false); err != nil {
		return err
	}
	h.accept = accept(form, proto.Supports(h.typ), partialAs)
	h.acceptList = accept(form, proto.Supports(h.typ), partialListAs)
	if !proto.Supports(h.typ) {
		return nil
	}
	h.protobuf = &codec[T]{scope: h.scope, form: form, wanted: kind, stats: &h.stats, newDecoder: h.newProtobuf, protobuf: true}
	h.protobuf.shared, err = h.newProtobuf(false)
	return err
}

func (h *HTTP[T]) newJSON(noSharing bool) (wire.Decoder[T], error) {
	return jsonDecoder[T](h.typ, h.wireOptions(noSharing))
}

func (h *HTTP[T]) newProtobuf(noSharing bool) (wire.Decoder[T], error) {
	return protobufDecoder[T](h.typ, h.wireOptions(noSharing))
}

func (h *HTTP[T]) wireOptions(noSharing bool) wire.Options {
	return wire.Options{Trim: h.scope.Trim, NoSharing: noSharing, OnStrayWrite: h.strayWrite, MaxTableBytes: h.scope.MaxSharedBytes}
}

func (h *HTTP[T]) strayWrite(field string) {
	h.stats.corrupted.Add(1)
	if f := h.onStrayWrite.Load(); f != nil {
		(*f)(field)
	}
}

// OnStrayWrite sets the function that is called when a part that objects share turns out to have been written to by someone.
// Field is where it came up, such as "metadata.labels". It is called while List or Next runs; it must not
// block. Objects that had the part before still have it.
func (h *HTTP[T]) OnStrayWrite(f func(field string)) { h.onStrayWrite.Store(&f) }

func formOf(typ reflect.Type) form {
	switch typ {
	case unstructuredType:
		return unstructuredForm
	case reflect.TypeFor[*metav1.PartialObjectMetadata]():
		return partialForm
	default:
		return typedForm
	}
}

// ObjectType returns the Go type of the objects: T, or for NewHTTPLike that of the example.
func (h *HTTP[T]) ObjectType() reflect.Type { return h.typ }

// Scope returns what the source was made for, completed.
func (h *HTTP[T]) Scope() Scope { return h.scope }

// List implements ListerWatcher.
func (h *HTTP[T]) List(ctx context.Context, opts ListOptions[T], each func(T) error) (ListResult, error) {
	if h.client.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, h.client.timeout, errTimeout)
		defer cancel()
	}
	response, err := h.client.get(ctx, *h.base, listQuery(h.scope, opts), h.acceptList)
	if err != nil {
		return ListResult{}, err
	}
	defer response.Body.Close()
	c, err := h.codecFor(response)
	if err != nil {
		return ListResult{}, err
	}
	r := c.reading(opts.Previous, opts.Decode, opts.NoSharing)
	items := c.list(countingReader{response.Body, &h.stats.bytes})
	for first := true; ; first = false {
		data, err := items.Next()
		if err != nil && err != io.EOF {
			return ListResult{}, withCause(ctx, fmt.Errorf("list %w", bodyError(err, h.scope)))
		}
		head := items.head()
		if first || err == io.EOF {
			if err := r.learn(head, err == io.EOF); err != nil {
				return ListResult{}, fmt.Errorf("list %v: %w", h.scope, err)
			}
		}
		if err == io.EOF {
			return ListResult{ResourceVersion: head.resourceVersion, Continue: head.nextPage}, nil
		}
		o, err := r.item(data)
		if err == nil {
			err = each(o)
		} else {
			err = opts.skip(err, h.scope)
		}
		if err != nil {
			return ListResult{}, err
		}
	}
}

// skip skips the item with the error if that is wanted and possible. Otherwise it returns the error that ends the list.
func (o *ListOptions[T]) skip(err error, scope Scope) error {
	if e, ok := errors.AsType[*ObjectError](err); ok && o.Skip != nil {
		o.Skip(e)
		return nil
	}
	return fmt.Errorf("list %v: %w", scope, err)
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
	c, err := h.codecFor(response)
	if err != nil {
		cancel(err)
		response.Body.Close()
		return nil, err
	}
	s := &stream[T]{ctx: ctx, cancel: cancel, body: response.Body, reading: c.reading(opts.Previous, opts.Decode, opts.NoSharing)}
	s.events, s.initial = c.events(countingReader{response.Body, &h.stats.bytes}), opts.SendInitialEvents
	return s, nil
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
func (h *HTTP[T]) codecFor(response *http.Response) (*codec[T], error) {
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")) // a broken one is no type that is known
	switch {
	case media == jsonType:
		return h.json, nil
	case media == protobufType && h.protobuf != nil:
		return h.protobuf, nil
	}
	return nil, fmt.Errorf("%v: %w", h.scope, newContentTypeError(response))
}

// Stats returns what the source has done so far.
func (h *HTTP[T]) Stats() Stats {
	return Stats{
		Bytes: h.stats.bytes.Load(), Objects: h.stats.objects.Load(), Reused: h.stats.reused.Load(), Corrupted: h.stats.corrupted.Load(),
	}
}

// SharedBytes returns what the source takes to remember parts that objects have in common, and what they look like. It is not for every
// change.
func (h *HTTP[T]) SharedBytes() int64 {
	stats := h.WireStats()
	return int64(stats.TableBytes + stats.PlanBytes)
}

// WireStats returns what all decoders of the source have done so far, together.
func (h *HTTP[T]) WireStats() wire.Stats {
	stats := h.json.wireStats(wire.Stats{})
	if h.protobuf != nil {
		stats = h.protobuf.wireStats(stats)
	}
	return stats
}
