package ondemand

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// lastApplied is the annotation with which kubectl apply repeats the body in the metadata.
const lastApplied = "metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]"

// MetadataTrim returns the fields that an informer drops from the metadata.
func MetadataTrim() tidings.Trim { return tidings.Trim{tidings.ManagedFields, lastApplied} }

// Metadata is the informer of the metadata that a Reader reads the bodies of.
type Metadata interface {
	// Name is the resource in messages: "secrets", "widgets.example.com".
	Name() string
	// Get returns the metadata of an object from the newest snapshot.
	Get(object.Key) (*metav1.PartialObjectMetadata, bool)
	// ResourceVersionIn returns the version that the newest snapshot is current to in a namespace.
	ResourceVersionIn(namespace string) string
	// Len returns how many objects the newest snapshot has.
	Len() int
}

// Reader reads the bodies of objects whose metadata somebody else has selected. Informer has one of its own; it is
// exported for packages between other interfaces and the engine. Its methods may be called from any goroutine.
type Reader[T object.Object] struct {
	metadata  Metadata
	scope     source.Scope
	newSource func(source.Scope) (*source.HTTP[T], error)
	source    *source.HTTP[T]
	codec     *codec.Objects[T]
	opts      Options
	held      *cache[T]
	all       holding[T]
	flights   flights[T]
	pause     pause
}

// NewReader returns a reader of objects of the example's type, which is known only at run time. The scope is that of
// the metadata; its namespace does not matter. The function all makes an informer of all bodies, for when that pays; the
// reader starts and stops it.
func NewReader(client *source.Client, scope source.Scope, example object.Object, metadata Metadata,
	all func() (*tidings.SharedInformer[object.Object], error), opts Options,
) (*Reader[object.Object], error) {
	codec, err := codec.NewAs[object.Object](reflect.TypeOf(example), 0)
	if err != nil {
		return nil, fmt.Errorf("on demand: %w", err)
	}
	newSource := func(scope source.Scope) (*source.HTTP[object.Object], error) {
		return source.NewHTTPLike(client, scope, example)
	}
	return newReader(newSource, codec, scope, metadata, all, opts)
}

func newReader[T object.Object](newSource func(source.Scope) (*source.HTTP[T], error), codec *codec.Objects[T],
	scope source.Scope, metadata Metadata, all func() (*tidings.SharedInformer[T], error), opts Options,
) (r *Reader[T], err error) {
	if opts, err = opts.withDefaults(); err != nil {
		return nil, err
	}
	r = &Reader[T]{metadata: metadata, scope: scope, newSource: newSource, codec: codec, opts: opts,
		held: newCache[T](opts)}
	if !opts.NeverHoldAll {
		r.all.informer = all
		r.all.size = func() (objects int, bytes int64) {
			objects = r.metadata.Len()
			return objects, r.held.sizeOf(objects)
		}
	}
	r.flights.life, r.flights.end = context.WithCancelCause(context.Background())
	if r.source, err = newSource(scope); err != nil {
		return nil, fmt.Errorf("on demand: %w", err)
	}
	return r, nil
}

// Read returns the object that the metadata belongs to. Unless its body is held, it is requested. See Informer.Get.
func (r *Reader[T]) Read(ctx context.Context, m *metav1.PartialObjectMetadata) (none T, err error) {
	key := object.KeyOf(m)
	if obj, ok, err := r.present(m); ok || err != nil {
		return obj, err
	}
	for asked := false; ; asked = true {
		b, joined, err := r.flights.join(ctx, key, func(ctx context.Context) (*body[T], error) {
			if b := r.held.get(key, m, r.metadata); b != nil {
				return b, nil // another request ended between the look and this one
			}
			r.all.note(r.flights.life, 1, 0)
			return r.fetch(ctx, m)
		})
		absent, isAbsent := errors.AsType[*absentError](err)
		sentAfterCall := asked || !joined
		switch {
		case err == nil && b.fits(m):
			return b.open(r.codec)
		case err != nil && ctx.Err() != nil, err != nil && sentAfterCall && (!isAbsent || absent.fits(m)):
			return none, r.explain(key, err)
		}
		// An error is as old as its request. This one had been sent before the call or before this metadata was known, or
		// the server was restored from a backup. The next one that is under way was sent later.
		m = r.newest(m)
	}
}

// present returns the object if no request is needed for it.
func (r *Reader[T]) present(m *metav1.PartialObjectMetadata) (obj T, ok bool, err error) {
	key := object.KeyOf(m)
	if b := r.held.get(key, m, r.metadata); b != nil {
		obj, err = b.open(r.codec)
		return obj, err == nil, err
	}
	obj, reached, ok := r.all.get(key, m)
	if !ok {
		return obj, false, nil
	}
	serve, requested := r.held.serve(key, m, reached)
	if requested {
		r.all.note(r.flights.life, 1, 0)
	}
	return obj, serve, nil
}

// newest returns the object's metadata from the newest snapshot, or what is known if that has none.
func (r *Reader[T]) newest(m *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	if current, ok := r.metadata.Get(object.KeyOf(m)); ok {
		return current
	}
	return m
}

// explain names the missing permission.
func (r *Reader[T]) explain(key object.Key, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return fmt.Errorf("the body of %s cannot be read without the verb get on %s in namespace %q: %w", key,
		r.metadata.Name(), key.Namespace, err)
}

// HoldsAll reports whether all bodies are held now, because that takes less than reading them on demand.
func (r *Reader[T]) HoldsAll() bool { return r.all.all.Load() != nil }

// Stop ends the requests under way, and drops the bodies. Reads that would need a request fail from then on.
func (r *Reader[T]) Stop() {
	r.flights.stop()
	r.all.close()
	r.held.close()
}
