package ondemand

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// Options limit what an informer keeps and requests. The zero value is ready to use.
type Options struct {
	// MaxBytes limits the bodies that are kept for the next read, in encoded bytes; 0 means 16 MiB. Those that were not
	// read for the longest time are dropped first. This is apart from the factory's MemoryBudget, which counts the
	// metadata.
	MaxBytes int64
	// KeepFor is how long a body that is not read is kept; 0 means 10 minutes.
	KeepFor time.Duration
	// Concurrency is how many requests a List has under way at a time; 0 means 8. A Get does not wait for them.
	Concurrency int
	// NeverHoldAll keeps the informer from holding all bodies. Otherwise it does so, with a list and watch of them, while
	// that takes less than the requests that it saves. Set it for values that must not be in the process unless somebody
	// has asked for them.
	NeverHoldAll bool
}

func (o Options) withDefaults() (Options, error) {
	if o.MaxBytes < 0 || o.KeepFor < 0 || o.Concurrency < 0 {
		return o, fmt.Errorf("on demand: Options has a negative limit: %+v", o)
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 16 << 20
	}
	if o.KeepFor == 0 {
		o.KeepFor = 10 * time.Minute
	}
	if o.Concurrency == 0 {
		o.Concurrency = 8
	}
	return o, nil
}

// Informer holds the metadata of a collection, and reads bodies on demand. Its methods may be called from any goroutine.
type Informer[T object.Object] struct {
	metadata *tidings.SharedInformer[*metav1.PartialObjectMetadata]
	resource schema.GroupResource
	reader   *Reader[T]
}

// New returns an informer for the factory's API server. It is started by the factory's next Start. Scope.Resource may be
// omitted for built-in types. Of the metadata, managed fields and the annotation in which kubectl apply repeats the body
// are dropped, besides what Scope.Trim says; bodies lack only the latter.
func New[T object.Object](factory *tidings.Factory, scope tidings.Scope, opts Options) (*Informer[T], error) {
	client := factory.Client()
	if client == nil {
		return nil, errors.New("on demand: bodies are read from an API server, which the factory does not have; make it with NewFactory")
	}
	if scope.Resource.Empty() {
		resource, err := builtin(reflect.TypeFor[T]())
		if err != nil {
			return nil, err
		}
		scope.Resource = resource
	}
	codec, err := codec.New[T](0)
	if err != nil {
		return nil, fmt.Errorf("on demand: %w", err)
	}
	inf := &Informer[T]{resource: scope.Resource.GroupResource()}
	newSource := func(scope source.Scope) (*source.HTTP[T], error) { return source.NewHTTP[T](client, scope) }
	bodies := scope
	all := func() (*tidings.SharedInformer[T], error) { // not a shared one, which may have a transform
		return tidings.UnsharedInformer(factory, bodies, tidings.UnsharedOptions[T]{})
	}
	if inf.reader, err = newReader(newSource, codec, scope.Source(""), nil, all, opts); err != nil {
		return nil, err
	}
	scope.Trim = append(scope.Trim[:len(scope.Trim):len(scope.Trim)], MetadataTrim()...)
	inf.metadata, err = tidings.Informer[*metav1.PartialObjectMetadata](factory, scope)
	inf.reader.metadata = metadataOf{inf.metadata}
	return inf, err
}

// metadataOf is the Metadata of an informer.
type metadataOf struct {
	*tidings.SharedInformer[*metav1.PartialObjectMetadata]
}

func (m metadataOf) Len() int { return m.Snapshot().Len() }

// builtin returns the resource of a built-in type.
func builtin(t reflect.Type) (none schema.GroupVersionResource, err error) {
	unknown := fmt.Errorf("on demand: %s is not a built-in type; set Scope.Resource", t)
	if t.Kind() != reflect.Pointer {
		return none, unknown
	}
	obj, ok := reflect.New(t.Elem()).Interface().(runtime.Object)
	if !ok {
		return none, unknown
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return none, unknown
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	return resource, nil
}

// Metadata returns the informer of the metadata: for handlers, indexes, controllers, its status, and to wait for its sync.
// A handler that needs a body calls Get.
func (inf *Informer[T]) Metadata() *tidings.SharedInformer[*metav1.PartialObjectMetadata] {
	return inf.metadata
}

// HoldsAll reports whether all bodies are held now, because that takes less than reading them on demand.
func (inf *Informer[T]) HoldsAll() bool { return inf.reader.HoldsAll() }

// Stop ends the requests under way, drops the bodies, and releases the informer of the metadata as its Stop does.
func (inf *Informer[T]) Stop(ctx context.Context) error {
	inf.reader.Stop()
	return inf.metadata.Stop(ctx)
}

// Object is a body with the metadata that was known when it was asked for.
type Object[T object.Object] struct {
	// Body is shared and read-only.
	Body     T
	Metadata *metav1.PartialObjectMetadata
}

// Newer reports whether the body is newer than the metadata, which then follows soon. It is never older.
func (o Object[T]) Newer() bool { return o.Body.GetResourceVersion() != o.Metadata.ResourceVersion }

// Get returns the object under key, with its body. It requests the body unless it has read this version before, and
// waits for the metadata's first sync if need be. The object is read-only, and never older than the newest snapshot of
// the metadata: if a server answers with an older state, it is asked again until ctx ends. For an object that does not
// exist the error is one for which apierrors.IsNotFound is true.
func (inf *Informer[T]) Get(ctx context.Context, key object.Key) (T, error) {
	o, err := inf.Read(ctx, key)
	return o.Body, err
}

// Read is Get, for callers who want the metadata as well, or have to know whether the body is newer.
func (inf *Informer[T]) Read(ctx context.Context, key object.Key) (none Object[T], err error) {
	if err := inf.waitForSync(ctx); err != nil {
		return none, err
	}
	m, ok, err := inf.metadata.Lookup(key)
	switch {
	case err != nil:
		return none, err
	case !ok:
		inf.reader.held.drop(key)
		return none, apierrors.NewNotFound(inf.resource, key.Name)
	}
	obj, err := inf.reader.Read(ctx, m)
	return Object[T]{obj, m}, err
}

// waitForSync waits for the first sync. Objects that cannot be decoded do not matter to others.
func (inf *Informer[T]) waitForSync(ctx context.Context) error {
	if inf.metadata.HasSynced() {
		return nil
	}
	if err := inf.metadata.WaitForSync(ctx); err != nil && !inf.metadata.HasSynced() {
		return fmt.Errorf("on demand, which needs the verbs list and watch on %s: %w", inf.metadata.Name(), err)
	}
	return nil
}
