package clientgo

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/forms"
)

// WithOneWatch makes the informers of a factory share their watches and stores with those of another factory of this
// package, whose objects have another form:
//
//	factory := clientgo.NewSharedInformerFactory(config, 0)
//	metadata := clientgo.NewMetadataSharedInformerFactory(config, 0, clientgo.WithOneWatch(factory))
//	dynamic := clientgo.NewDynamicSharedInformerFactory(config, 0, clientgo.WithOneWatch(factory))
//
// The form of a resource that is asked for first is held, by the factory that is asked, with its options. Objects of
// other forms are made when they are read or handed to a handler, which takes CPU each time, unless somebody holds what
// was made before. Informers share what has the same API server, namespace and selectors. Nothing is made from
// metadata, and structured and unstructured objects are made from each other for the types of k8s.io/api only: a form
// that cannot be made has a watch of its own. So have informers with a transform, and those of factories over a client.
//
// The watch ends when all informers over it have ended; one that is never run keeps it. It panics for a factory that is
// not one of NewSharedInformerFactory, NewDynamicSharedInformerFactory or NewMetadataSharedInformerFactory.
func WithOneWatch(with interface{ Shutdown() }) Option {
	other, ok := with.(interface{ sharedWatches() *sharedWatches })
	if !ok {
		panic(fmt.Sprintf("clientgo: WithOneWatch: a %T has no watches to share; pass a factory of "+
			"NewSharedInformerFactory, NewDynamicSharedInformerFactory or NewMetadataSharedInformerFactory", with))
	}
	return func(o *factoryOptions) { o.watches = other.sharedWatches() }
}

func (f *factory) sharedWatches() *sharedWatches { return f.opts.watches }

func (f *resourceFactory) sharedWatches() *sharedWatches { return f.base.opts.watches }

// sharedWatches are the watches that one or several factories share. The lock is held while an informer is made, so
// that two that are asked for at once share a watch.
type sharedWatches struct {
	mu  sync.Mutex
	all []sharedWatch
}

// sharedWatch is a watch, with the informer that it was made for.
type sharedWatch struct {
	selects  selected
	held     reflect.Type
	informer *informer
}

// selected says which objects a watch brings.
type selected struct {
	address, namespace, labels, fields string
	resource                           schema.GroupVersionResource
}

// newInformer returns an informer for a table row: one that shares a watch, or else one that others can share.
func (f *factory) newInformer(row resourceType, resync time.Duration) (*informer, error) {
	scope := tidings.Scope{
		Resource: row.resource, Labels: f.selectors.LabelSelector, Fields: f.selectors.FieldSelector,
	}
	wanted := selected{labels: scope.Labels, fields: scope.Fields, resource: row.resource}
	if row.scope == namespaced {
		scope.Namespaces, wanted.namespace = []string{f.opts.namespace}, f.opts.namespace
	}
	if f.native.Client() == nil || f.opts.transform != nil || f.opts.shard != nil {
		return f.newOwnInformer(row, scope, resync)
	}
	wanted.address = f.native.Client().Address()
	shared := f.opts.watches
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if inf := shared.view(wanted, row, resync); inf != nil {
		return inf, nil
	}
	inf, err := f.newOwnInformer(row, scope, resync)
	if err == nil {
		shared.all = append(shared.all, sharedWatch{wanted, row.goType, inf})
	}
	return inf, err
}

// newOwnInformer returns an informer with a watch of its own.
func (f *factory) newOwnInformer(row resourceType, scope tidings.Scope, resync time.Duration) (*informer, error) {
	inf := new(informer)
	inf.sharing = &sharing{all: []*informer{inf}}
	native, err := tidings.UnsharedInformer(f.native, scope, tidings.UnsharedOptions[tidings.Object]{
		OnError: inf.sharing.handleError,
	})
	if err != nil {
		return nil, err
	}
	return inf, inf.init(native, row.goType.String(), row.description(), resync, byNamespaceOnly())
}

func byNamespaceOnly() cache.Indexers {
	return cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
}

// view returns an informer over a watch that brings what is wanted, or nil. The lock is held.
func (s *sharedWatches) view(wanted selected, row resourceType, resync time.Duration) *informer {
	for _, w := range slices.Clone(s.all) {
		if w.selects != wanted {
			continue
		}
		convert, ok := forms.Conversion(kindOf(row.resource), w.held, row.goType)
		if !ok {
			continue
		}
		made, err := NewSharedIndexInformerView(w.informer, convert, cache.SharedIndexInformerOptions{
			ResyncPeriod: resync, Indexers: byNamespaceOnly(), ObjectDescription: row.description(),
		})
		if err != nil { // it has ended, or the program has given it a transform
			s.all = slices.DeleteFunc(s.all, func(other sharedWatch) bool { return other == w })
			continue
		}
		inf := made.(*informer)
		inf.goType = row.goType.String()
		return inf
	}
	return nil
}

// kindOf returns the kind of a built-in resource. It is empty for any other.
func kindOf(resource schema.GroupVersionResource) schema.GroupVersionKind {
	row, ok := byResource()[resource]
	if !ok {
		return schema.GroupVersionKind{}
	}
	kinds, _, _ := scheme.Scheme.ObjectKinds(row.example())
	for _, kind := range kinds {
		if kind.GroupVersion() == resource.GroupVersion() {
			return kind
		}
	}
	return schema.GroupVersionKind{}
}
