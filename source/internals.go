package source

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/object"
)

// internals are the methods of HTTP and Client that only this module's packages call.
type internals = intake.Internals

var (
	_ intake.RawClient[Scope, *HTTP[*codec.Raw]]                                    = clientInternals{}
	_ intake.MetadataLister[ListOptions[*metav1.PartialObjectMetadata], ListResult] = httpInternals[object.Object]{}
)

// httpInternals are the internals of HTTP.
type httpInternals[T object.Object] struct{ *HTTP[T] }

// Self returns the source that the internals belong to. This module's reflector calls ListDecoded and WatchDecoded in
// place of List and Watch, but not of a source that embeds an HTTP: that has inherited all of these, and its own List
// and Watch may do something else.
func (h httpInternals[T]) Self() any { return h.HTTP }

// OnStrayWrite is as in intake.SharedParts.
func (h httpInternals[T]) OnStrayWrite(f func(field string)) { h.onStrayWrite.Store(&f) }

// SharedBytes is as in intake.SharedParts.
func (h httpInternals[T]) SharedBytes() int64 {
	stats := h.wireStats()
	return int64(stats.TableBytes + stats.PlanBytes)
}

// clientInternals are the internals of Client.
type clientInternals struct{ *Client }

// NewRaw returns a source of the scope's objects as the server sends them: in protobuf if protobuf
// is set, which the server must support for the resource, or else in JSON. Scope.Kind is required;
// Scope.Trim must be empty.
func (c clientInternals) NewRaw(scope Scope, protobuf bool) (*HTTP[*codec.Raw], error) {
	scope, err := scope.complete()
	switch {
	case err != nil:
		return nil, err
	case scope.Resource.Resource == "" || scope.Resource.Version == "" || scope.Kind.Empty():
		return nil, errors.New("source: objects that are kept as they come need a Scope with a resource and a kind")
	case len(scope.Trim) > 0:
		return nil, fmt.Errorf("source: %v: objects that are kept as they come cannot be trimmed", scope)
	}
	h := newPlainHTTP[*codec.Raw](c.Client, scope, reflect.TypeFor[*codec.Raw]())
	h.accept, h.acceptList = jsonType, jsonType
	if protobuf {
		h.accept, h.acceptList = protobufType, protobufType // JSON would be another encoding of the same states
		h.protobuf = rawFormat(h, true)
	}
	h.json = rawFormat(h, false)
	return h, nil
}

func rawFormat(h *HTTP[*codec.Raw], protobuf bool) *format[*codec.Raw] {
	decoder := codec.RawDecoder(protobuf)
	return &format[*codec.Raw]{
		scope: h.scope, form: typedForm, protobuf: protobuf, wanted: h.scope.Kind, stats: &h.stats, shared: decoder,
		newDecoder: func(bool) (wire.Decoder[*codec.Raw], error) { return decoder, nil },
	}
}

// Uncounted makes client-go's request metrics ignore the requests, because those of another client are read that it
// counts. It must be called before the first request.
func (c clientInternals) Uncounted() { c.uncounted = true }

// Base returns the base URL of the API server. It must not be modified.
func (c clientInternals) Base() *url.URL { return c.base }
