package source

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
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
// the connection's error or wraps io.ErrUnexpectedEOF. An object that cannot be understood, has no name or belongs
// elsewhere ends a list with an error; in a watch it is an Invalid event.
type HTTP[T object.Object] struct {
	client   *Client
	target   Target
	base     *url.URL
	accept   string
	json     *codec[T]
	protobuf *codec[T] // nil if T has no protobuf encoding
	stats    counters
}

// NewHTTP makes a source of the target's objects. T decides the encoding: protobuf for types that have it and
// *metav1.PartialObjectMetadata (for which the server sends metadata only), JSON for *unstructured.Unstructured and
// every other Go struct. What the server answers with is read in any case. No request is made yet.
// An error says what is wrong with the target or with T.
func NewHTTP[T object.Object](client *Client, target Target) (*HTTP[T], error) {
	target, err := target.complete()
	if err != nil {
		return nil, err
	}
	h := &HTTP[T]{client: client, target: target, base: client.collectionURL(target.Resource, target.Namespace)}
	if err := h.makeCodecs(); err != nil {
		return nil, fmt.Errorf("source: %v: %w", target, err)
	}
	return h, nil
}

func (h *HTTP[T]) makeCodecs() error {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("cannot decode into %v; want a pointer to a struct", t)
	}
	form, kind := formOf[T](), h.target.Kind
	if form == typedForm && kind.Empty() {
		kind = h.target.Resource.GroupVersion().WithKind(t.Elem().Name())
	}
	if form == partialForm {
		kind = schema.GroupVersionKind{} // the server may send either kind
	}
	options := wire.Options{Trim: h.target.Trim, NoSharing: h.target.NoSharing}
	fromJSON, err := jsonDecoder[T](form, options)
	if err != nil {
		return err
	}
	fromProtobuf, err := protobufDecoder[T](options)
	if err != nil {
		return err
	}
	h.json = newCodec(h.target, form, kind, fromJSON, &h.stats)
	if fromProtobuf != nil {
		h.protobuf = newCodec(h.target, form, kind, fromProtobuf, &h.stats)
		h.protobuf.protobuf = true
	}
	h.accept = accept(form, h.protobuf != nil)
	return nil
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
	response, err := h.client.get(ctx, *h.base, listQuery(h.target, opts), h.accept)
	if err != nil {
		return ListResult{}, err
	}
	defer response.Body.Close()
	c, err := h.codecFor(response)
	if err != nil {
		return ListResult{}, err
	}
	if opts.Continue == "" {
		c.begin()
	}
	items := c.list(countingReader{response.Body, &h.stats.bytes})
	for first := true; ; first = false {
		data, err := items.Next()
		if err != nil && err != io.EOF {
			return ListResult{}, withCause(ctx, fmt.Errorf("list %w", bodyError(err, h.target)))
		}
		head := items.head()
		if first || err == io.EOF {
			if err := c.learn(head, err == io.EOF); err != nil {
				return ListResult{}, err
			}
		}
		if err == io.EOF {
			if head.nextPage == "" {
				c.end()
			}
			return ListResult{ResourceVersion: head.resourceVersion, Continue: head.nextPage}, nil
		}
		o, err := c.item(data, opts.Known)
		if err != nil {
			return ListResult{}, fmt.Errorf("list %v: %w", h.target, err)
		}
		if err := each(o); err != nil {
			return ListResult{}, err
		}
	}
}

// Watch implements ListerWatcher. Next returns ErrClosed after Close, and an error that wraps the cause of ctx's end
// after that.
func (h *HTTP[T]) Watch(ctx context.Context, opts WatchOptions[T]) (Stream[T], error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := h.limitStart(cancel)
	response, err := h.client.get(ctx, *h.base, watchQuery(h.target, opts), h.accept)
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
	s := &stream[T]{ctx: ctx, cancel: cancel, body: response.Body, codec: c}
	s.events = c.events(countingReader{response.Body, &h.stats.bytes})
	if opts.SendInitialEvents {
		s.known = opts.Known
		c.begin()
	}
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
	return nil, fmt.Errorf("%v: %w", h.target, newContentTypeError(response))
}

// Stats returns what the source has done so far.
func (h *HTTP[T]) Stats() Stats {
	return Stats{Bytes: h.stats.bytes.Load(), Objects: h.stats.objects.Load(), Reused: h.stats.reused.Load()}
}

// WireStats returns what the decoders of both encodings have done so far, together.
func (h *HTTP[T]) WireStats() wire.Stats {
	stats := h.json.decoder.Stats()
	if h.protobuf != nil {
		stats = addStats(stats, h.protobuf.decoder.Stats())
	}
	return stats
}
