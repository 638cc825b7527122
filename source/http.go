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
	"slices"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/proto"
	"github.com/tidings/tidings/object"
)

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
)

// Parameters of media types that request metadata only, for a watch and for a list. From servers
// that do not support them come complete objects, of which only the metadata is used.
const (
	partialAs     = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	partialListAs = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// managedFields is a field that clients may ask servers from 1.38 on to leave out, with dropManagedFields as a parameter
// of the media type. Nothing in discovery tells which servers do. The others ignore the parameter, as all Kubernetes API
// servers do with those that they do not know, and one that refuses it can choose the same media type without it.
const (
	managedFields     = "metadata.managedFields"
	dropManagedFields = ";drop=" + managedFields
)

// HTTP is a ListerWatcher that talks to an API server directly, without client-go's clients. Create one with NewHTTP.
//
// Bodies are decoded as they arrive: a list is never in memory as a whole, and a watch starts no goroutine of its own.
// Objects of a Go struct type have no apiVersion and kind, as with client-go's typed clients; unstructured objects
// and PartialObjectMetadata have them, even if a list omits them from its items.
//
// If an object of a Go struct type arrives in protobuf with the uid and resource version of the
// object from Previous, the latter is returned. All other objects are decoded again, even if their
// resource version is the same: a server converts and defaults custom resources when they are read,
// so a schema change alters what it sends for an old version. To find out whether such an object
// has changed, compare it.
//
// Objects share their equal parts, unless NoSharing is set, so they are read-only. If someone
// writes to a shared part nevertheless, Stats.Corrupted counts it, an informer reports it, and
// objects decoded later do not get that part.
//
// A watch's object that the scope's selectors exclude, as far as its labels, name and namespace show that, is reported as
// deleted: some servers forget the selectors of watches. If a list has such an object, the server selects by something
// else, and nothing is checked.
//
// A response other than 200 OK results in an *apierrors.StatusError, with the server's Retry-After
// if there is one; a body of another content type in a *ContentTypeError, an object above the size
// limit in a *TooLargeError, a collection of another kind in a *KindError, and a truncated body in
// the connection's error or one that wraps io.ErrUnexpectedEOF. An object that cannot be decoded,
// has no name or does not belong to the collection is skipped by a list if ListOptions.Skip is set,
// and ends it otherwise; in a watch it becomes an Invalid event. Warnings from the server go to the
// handler in the client's rest.Config.
type HTTP[T object.Object] struct {
	internals              // httpInternals
	typ       reflect.Type // of objects
	client    *Client
	scope     Scope
	selects   *selection
	base      *url.URL
	accept    string // the Accept header of watches
	// acceptList is the Accept header of lists.
	acceptList string
	json       *format[T]
	protobuf   *format[T] // nil if T has no protobuf encoding
	stats      counters

	onStrayWrite atomic.Pointer[func(field string)]
}

// NewHTTP returns a source of the scope's objects. T determines the requested encoding: protobuf
// for types that have it and *metav1.PartialObjectMetadata (for which the server sends metadata
// only), JSON for *unstructured.Unstructured and every other Go struct. JSON responses are always
// accepted. No request is made yet. It is an error if the scope is invalid or T cannot be decoded
// into.
func NewHTTP[T object.Object](client *Client, scope Scope) (*HTTP[T], error) {
	return newHTTP[T](client, scope, reflect.TypeFor[T]())
}

// NewHTTPLike is like NewHTTP, for a type that is known only at run time: that of the example.
func NewHTTPLike(client *Client, scope Scope, example object.Object) (*HTTP[object.Object], error) {
	if example == nil {
		return nil, fmt.Errorf("source: %v: the example is nil", scope)
	}
	return newHTTP[object.Object](client, scope, reflect.TypeOf(example))
}

// newHTTP returns a source of objects of type typ, which is T or implements it.
func newHTTP[T object.Object](client *Client, scope Scope, typ reflect.Type) (*HTTP[T], error) {
	scope, err := scope.complete()
	if err != nil {
		return nil, err
	}
	if scope.Resource.Resource == "" || scope.Resource.Version == "" {
		return nil, errors.New("source: Scope.Resource needs a resource and a version, such as {apps, v1, deployments}")
	}
	h := newPlainHTTP[T](client, scope, typ)
	if err := h.makeFormats(); err != nil {
		return nil, fmt.Errorf("source: %v: %w", scope, err)
	}
	return h, nil
}

// newPlainHTTP returns a source without formats.
func newPlainHTTP[T object.Object](client *Client, scope Scope, typ reflect.Type) *HTTP[T] {
	h := &HTTP[T]{typ: typ, client: client, scope: scope, selects: newSelection(scope), base: client.collectionURL(scope.Resource, scope.Namespace)}
	h.internals = intake.NewInternals(httpInternals[T]{h})
	return h
}

func (h *HTTP[T]) makeFormats() (err error) {
	if h.typ.Kind() != reflect.Pointer || h.typ.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("cannot decode into %v; want a pointer to a struct", h.typ)
	}
	form, kind := formOf(h.typ), h.scope.Kind
	if form == typedForm && kind.Empty() {
		kind = h.scope.Resource.GroupVersion().WithKind(h.typ.Elem().Name())
	}
	h.json = &format[T]{scope: h.scope, selects: h.selects, form: form, wanted: kind, stats: &h.stats, newDecoder: h.newJSON}
	if h.json.shared, err = h.newJSON(false); err != nil {
		return err
	}
	h.accept = h.acceptHeader(form, partialAs)
	h.acceptList = h.acceptHeader(form, partialListAs)
	if !proto.Supports(h.typ) {
		return nil
	}
	h.protobuf = &format[T]{scope: h.scope, selects: h.selects, form: form, wanted: kind, stats: &h.stats, newDecoder: h.newProtobuf, protobuf: true}
	h.protobuf.shared, err = h.newProtobuf(false)
	return err
}

func (h *HTTP[T]) newJSON(noSharing bool) (wire.Decoder[T], error) {
	return codec.JSONDecoder[T](h.typ, h.wireOptions(noSharing))
}

func (h *HTTP[T]) newProtobuf(noSharing bool) (wire.Decoder[T], error) {
	return codec.ProtobufDecoder[T](h.typ, h.wireOptions(noSharing))
}

// fewObjects is how many objects are too few for a decoding plan to pay. Tests of what a plan does set it to 0.
var fewObjects = 16

func (h *HTTP[T]) wireOptions(noSharing bool) wire.Options {
	return wire.Options{
		Trim: h.scope.Trim, NoSharing: noSharing, WithoutPlan: fewObjects, OnStrayWrite: h.reportStrayWrite,
		MaxTableBytes: h.scope.MaxSharedBytes,
	}
}

func (h *HTTP[T]) reportStrayWrite(field string) {
	h.stats.corrupted.Add(1)
	if f := h.onStrayWrite.Load(); f != nil {
		(*f)(field)
	}
}

// acceptHeader returns the Accept header; as is the media type parameter that requests metadata only.
func (h *HTTP[T]) acceptHeader(f form, as string) string {
	types := []string{jsonType}
	if proto.Supports(h.typ) {
		types = []string{protobufType, jsonType}
	}
	if f == partialForm {
		types = []string{protobufType + as, jsonType + as, jsonType}
	}
	if slices.Contains(h.scope.Trim, managedFields) {
		for i, plain := range types {
			types = slices.Insert(types, 2*i, plain+dropManagedFields)
		}
	}
	return strings.Join(types, ",")
}

func formOf(typ reflect.Type) form {
	switch typ {
	case reflect.TypeFor[*unstructured.Unstructured]():
		return unstructuredForm
	case reflect.TypeFor[*metav1.PartialObjectMetadata]():
		return partialForm
	default:
		return typedForm
	}
}

// ObjectType returns the Go type of the objects: T, or for NewHTTPLike that of the example.
func (h *HTTP[T]) ObjectType() reflect.Type { return h.typ }

// Scope returns the source's scope with defaults filled in.
func (h *HTTP[T]) Scope() Scope { return h.scope }

// List implements ListerWatcher.
func (h *HTTP[T]) List(ctx context.Context, opts ListOptions[T], each func(T) error) (ListResult, error) {
	by := intake.Previous[T](opts.Previous)
	return httpInternals[T]{h}.ListDecoded(ctx, opts, by, func(r intake.Received[T]) error { return each(r.Object) })
}

// ListDecoded is List for a caller that decodes the objects.
func (h httpInternals[T]) ListDecoded(
	ctx context.Context, opts ListOptions[T], by intake.Decoder[T], each func(intake.Received[T]) error,
) (ListResult, error) {
	if h.client.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, h.client.timeout, errTimeout)
		defer cancel()
	}
	response, err := h.client.get(ctx, *h.base, listQuery(ctx, h.scope, opts), h.acceptList)
	if err != nil {
		return ListResult{}, err
	}
	defer response.Body.Close()
	c, err := h.formatFor(response)
	if err != nil {
		return ListResult{}, err
	}
	r := c.newObjectReader(by, opts.Previous != nil, opts.NoSharing)
	items := c.list(countingReader{response.Body, &h.stats.bytes})
	for first := true; ; first = false {
		data, err := items.Next()
		if err != nil && err != io.EOF {
			return ListResult{}, withCause(ctx, fmt.Errorf("list %w", bodyError(err, h.scope)))
		}
		head := items.head()
		if first || err == io.EOF {
			if err := r.checkListHead(head, err == io.EOF); err != nil {
				return ListResult{}, fmt.Errorf("list %v: %w", h.scope, err)
			}
		}
		if err == io.EOF {
			return ListResult{ResourceVersion: head.resourceVersion, Continue: head.nextPage}, nil
		}
		if r.excludesEncoded(data) {
			continue
		}
		by.Begin()
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

// skip calls Skip if it is set and err is an ObjectError. Otherwise it returns the error that ends the list.
func (o *ListOptions[T]) skip(err error, scope Scope) error {
	if e, ok := errors.AsType[*ObjectError](err); ok && o.Skip != nil {
		o.Skip(e)
		return nil
	}
	return fmt.Errorf("list %v: %w", scope, err)
}

// Watch implements ListerWatcher. The stream's Next returns ErrClosed after Close, and an error
// that wraps the cause of ctx's end once ctx has ended.
func (h *HTTP[T]) Watch(ctx context.Context, opts WatchOptions[T]) (Stream[T], error) {
	return httpInternals[T]{h}.WatchDecoded(ctx, opts, intake.Previous[T](opts.Previous))
}

// WatchDecoded is Watch for a caller that decodes the objects. The stream has a method NextDecoded.
func (h httpInternals[T]) WatchDecoded(
	ctx context.Context, opts WatchOptions[T], by intake.Decoder[T],
) (Stream[T], error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := h.limitStart(cancel)
	response, err := h.client.get(ctx, *h.base, watchQuery(ctx, h.scope, opts), h.accept)
	if !stop() && err == nil {
		response.Body.Close()
		err = errTimeout
	}
	if err != nil {
		cancel(err)
		return nil, err
	}
	c, err := h.formatFor(response)
	if err != nil {
		cancel(err)
		response.Body.Close()
		return nil, err
	}
	s := &stream[T]{ctx: ctx, cancel: cancel, body: response.Body}
	s.objectReader = c.newObjectReader(by, opts.Previous != nil, opts.NoSharing)
	s.events, s.initial = c.events(countingReader{response.Body, &h.stats.bytes}), opts.SendInitialEvents
	return s, nil
}

// limitStart cancels the request unless stop is called within the client's timeout. stop reports
// whether it was in time.
func (h *HTTP[T]) limitStart(cancel context.CancelCauseFunc) (stop func() bool) {
	if h.client.timeout <= 0 {
		return func() bool { return true }
	}
	return time.AfterFunc(h.client.timeout, func() { cancel(errTimeout) }).Stop
}

// formatFor returns the format for the response's content type.
func (h *HTTP[T]) formatFor(response *http.Response) (*format[T], error) {
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")) // an invalid one matches no case
	switch {
	case media == jsonType:
		return h.json, nil
	case media == protobufType && h.protobuf != nil:
		return h.protobuf, nil
	}
	return nil, fmt.Errorf("%v: %w", h.scope, newContentTypeError(response))
}

// Stats returns the source's counters.
func (h *HTTP[T]) Stats() Stats {
	return Stats{
		Bytes: h.stats.bytes.Load(), Objects: h.stats.objects.Load(), Reused: h.stats.reused.Load(), Corrupted: h.stats.corrupted.Load(),
	}
}

// wireStats returns the combined statistics of the source's decoders.
func (h *HTTP[T]) wireStats() wire.Stats {
	stats := h.json.wireStats(wire.Stats{})
	if h.protobuf != nil {
		stats = h.protobuf.wireStats(stats)
	}
	return stats
}
