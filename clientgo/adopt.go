package clientgo

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// A program's function that makes an informer of client-go's says with it what it lists, and how. A factory gets an
// informer on our engine with the same parts.

// upstreamParts are what one of client-go's informers is made of.
type upstreamParts struct {
	lw           cache.ListerWatcher
	example      runtime.Object
	description  string
	transform    cache.TransformFunc
	onWatchError cache.WatchErrorHandlerWithContext
	identifier   cache.InformerNameAndResource
	metrics      cache.InformerMetricsProvider
	indexers     cache.Indexers
}

// partsOf returns the parts of an informer of client-go's that nobody has added handlers to or started. They are read
// from its fields, as it has no methods for them; it returns false if it has other fields.
func partsOf(inf cache.SharedIndexInformer) (p upstreamParts, ok bool) {
	of := reflect.ValueOf(inf)
	if of.Kind() != reflect.Pointer || of.IsNil() || of.Elem().Type().PkgPath() != "k8s.io/client-go/tools/cache" {
		return p, false
	}
	of = of.Elem()
	if wrapped := of.FieldByName("SharedIndexInformer"); wrapped.IsValid() { // a typed informer, since 0.37
		inner, _ := wrapped.Interface().(cache.SharedIndexInformer)
		return partsOf(inner)
	}
	if of.Type().Name() != "sharedIndexInformer" {
		return p, false
	}
	var started bool
	for name, to := range map[string]any{
		"listerWatcher": &p.lw, "objectType": &p.example, "objectDescription": &p.description, "transform": &p.transform,
		"watchErrorHandler": &p.onWatchError, "identifier": &p.identifier, "informerMetricsProvider": &p.metrics, "started": &started,
	} {
		field, to := of.FieldByName(name), reflect.ValueOf(to).Elem()
		if !field.IsValid() || field.Type() != to.Type() {
			return p, false
		}
		to.Set(reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem())
	}
	processor := of.FieldByName("processor")
	if processor.Kind() != reflect.Pointer || processor.IsNil() {
		return p, false
	}
	handlers := processor.Elem().FieldByName("listeners")
	if handlers.Kind() != reflect.Map || handlers.Len() > 0 || started {
		return p, false
	}
	p.indexers = inf.GetIndexer().GetIndexers()
	return p, p.lw != nil
}

// adopt returns an informer on our engine that has the parts of one of client-go's, or an error that says why there is
// none. The informer belongs to the factory, if it is known what it lists.
func (f *factory) adopt(made cache.SharedIndexInformer, obj runtime.Object, resync time.Duration) (*informer, error) {
	p, ok := partsOf(made)
	if !ok {
		return nil, errors.New("it is not an informer of client-go's, has handlers already, or its parts are not known in this version")
	}
	if p.example == nil {
		p.example = obj
	}
	example, ok := p.example.(tidings.Object)
	if !ok {
		return nil, fmt.Errorf("a %T is no API object", p.example)
	}
	inf, err := f.adoptParts(p, example, resync)
	if err != nil {
		return nil, err
	}
	inf.transform, inf.onWatchError = p.transform, p.onWatchError
	return inf, nil
}

func (f *factory) adoptParts(p upstreamParts, example tidings.Object, resync time.Duration) (*informer, error) {
	scope, err := scopeOf(p.lw, example)
	if err != nil {
		return newListWatchInformer(p.lw, example, cache.SharedIndexInformerOptions{
			ResyncPeriod: resync, Indexers: p.indexers, ObjectDescription: p.description, Identifier: p.identifier,
			InformerMetricsProvider: p.metrics,
		})
	}
	inf := new(informer)
	native, err := tidings.UnsharedInformer(f.native, scope, tidings.UnsharedOptions[tidings.Object]{
		Source: func(scope tidings.Scope, _ string) (source.ListerWatcher[tidings.Object], error) {
			of := scope.Source("")
			of.Labels, of.Fields, of.MaxObjectBytes = "", "", f.opts.native.MaxObjectBytes
			return newFunctionSource(p.lw, example, of)
		},
		OnError: inf.handleError,
	})
	if err != nil {
		return nil, err
	}
	identifier := p.identifier
	if f.opts.informerName != nil {
		identifier = f.opts.informerName.WithResource(scope.Resource)
	}
	inf.metrics = newInformerMetrics(identifier, p.metrics)
	goType := reflect.TypeOf(example).String()
	description := p.description
	if description == "" {
		description = typeDescription(example, "")
	}
	return inf, inf.init(native, goType, description, resync, p.indexers)
}

// askTimeout limits how long a list function may take to send its request.
const askTimeout = 10 * time.Second

// scopeOf returns what a ListerWatcher lists. It calls its list function, whose request is answered with an empty list
// and not sent.
func scopeOf(lw cache.ListerWatcher, example tidings.Object) (tidings.Scope, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	s, err := newFunctionSource(lw, example, source.Scope{})
	if err != nil {
		return tidings.Scope{}, err
	}
	c := startCall(ctx, func(ctx context.Context) (runtime.Object, error) {
		return s.lw.ListWithContext(ctx, metav1.ListOptions{Limit: 1})
	})
	defer c.end(nil)
	a := c.next(ctx)
	if a == nil {
		return tidings.Scope{}, errors.New("its list function sends no request through the client that it was given")
	}
	response, err := listResponse(s.kindOf(a.request, nil), nil)
	a.answer(answer{response: response, err: err})
	of, err := targetOf(a.request, false)
	if err != nil {
		return tidings.Scope{}, err
	}
	query := a.request.URL.Query()
	scope := tidings.Scope{Resource: of.resource, Labels: query.Get("labelSelector"), Fields: query.Get("fieldSelector")}
	if of.namespace != "" {
		scope.Namespaces = []string{of.namespace}
	}
	select { // so that the function does not see its context end
	case <-c.done:
	case <-ctx.Done():
	}
	return scope, nil
}
