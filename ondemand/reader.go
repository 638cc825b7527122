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
	flights   flights[T]
	pause     pause
}

// NewReader returns a reader of objects of the example's type, which is known only at run time. The scope is that of
// the metadata; its namespace does not matter.
func NewReader(client *source.Client, scope source.Scope, example object.Object, metadata Metadata, opts Options,
) (*Reader[object.Object], error) {
	codec, err := codec.NewAs[object.Object](reflect.TypeOf(example), 0)
	if err != nil {
		return nil, fmt.Errorf("on demand: %w", err)
	}
	newSource := func(scope source.Scope) (*source.HTTP[object.Object], error) {
		return source.NewHTTPLike(client, scope, example)
	}
	return newReader(newSource, codec, scope, metadata, opts)
}

func newReader[T object.Object](newSource func(source.Scope) (*source.HTTP[T], error), codec *codec.Objects[T],
	scope source.Scope, metadata Metadata, opts Options,
) (r *Reader[T], err error) {
	if opts, err = opts.withDefaults(); err != nil {
		return nil, err
	}
	r = &Reader[T]{metadata: metadata, scope: scope, newSource: newSource, codec: codec, opts: opts,
		held: newCache[T](opts)}
	r.flights.life, r.flights.end = context.WithCancelCause(context.Background())
	if r.source, err = newSource(scope); err != nil {
		return nil, fmt.Errorf("on demand: %w", err)
	}
	return r, nil
}

// Read returns the object that the metadata belongs to. Unless its body is held, it is requested. See Informer.Get.
func (r *Reader[T]) Read(ctx context.Context, m *metav1.PartialObjectMetadata) (none T, err error) {
	key := object.KeyOf(m)
	if b := r.held.get(key, m, r.metadata); b != nil {
		return b.open(r.codec)
	}
	for asked := false; ; asked = true {
		b, joined, err := r.flights.join(ctx, key, func(ctx context.Context) (*body[T], error) {
			if b := r.held.get(key, m, r.metadata); b != nil {
				return b, nil // another request ended between the look and this one
			}
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

// Stop ends the requests under way, and drops the bodies. Reads that would need a request fail from then on.
func (r *Reader[T]) Stop() {
	r.flights.stop()
	r.held.close()
}
