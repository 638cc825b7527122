package clientgo

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/features"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/source"
)

// collectionSource reads a collection. Lists are within the rate limit of its client; as in client-go, watches need not
// wait for that.
type collectionSource struct {
	*source.HTTP[tidings.Object]
	intake.Internals                         // collectionInternals, in place of HTTP's
	limiter          flowcontrol.RateLimiter // nil if there is none
}

func newCollectionSource(src *source.HTTP[tidings.Object], limiter flowcontrol.RateLimiter) *collectionSource {
	s := &collectionSource{HTTP: src, limiter: limiter}
	s.Internals = intake.NewInternals(collectionInternals{intake.InternalsOf(src).(httpInternals), s})
	return s
}

// List waits for the rate limiter, and lists.
func (s *collectionSource) List(
	ctx context.Context, opts source.ListOptions[tidings.Object], each func(tidings.Object) error,
) (source.ListResult, error) {
	if err := s.admit(ctx); err != nil {
		return source.ListResult{}, err
	}
	return s.HTTP.List(ctx, opts, func(obj tidings.Object) error {
		clearMetadataKind(obj)
		return each(obj)
	})
}

// Watch watches. It streams initial objects only if client-go's feature gate allows it.
func (s *collectionSource) Watch(
	ctx context.Context, opts source.WatchOptions[tidings.Object],
) (source.Stream[tidings.Object], error) {
	if err := mayStream(opts); err != nil {
		return nil, err
	}
	stream, err := s.HTTP.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return collectionStream{stream}, nil
}

// httpInternals are the internals of source.HTTP.
type httpInternals interface {
	OnStrayWrite(func(field string))
	SharedBytes() int64
	ListMetadata(
		context.Context, source.ListOptions[*metav1.PartialObjectMetadata], func(*metav1.PartialObjectMetadata) error,
	) (source.ListResult, error)
	ListDecoded(
		context.Context, source.ListOptions[tidings.Object], intake.Decoder[tidings.Object],
		func(intake.Received[tidings.Object]) error,
	) (source.ListResult, error)
	WatchDecoded(
		context.Context, source.WatchOptions[tidings.Object], intake.Decoder[tidings.Object],
	) (source.Stream[tidings.Object], error)
}

// collectionInternals are the internals of a collectionSource.
type collectionInternals struct {
	httpInternals
	source *collectionSource
}

// Self returns the source, whose objects are decoded by those who hold them. Those that are metadata have to come
// through List and Watch, which clear their kind.
func (c collectionInternals) Self() any {
	if c.source.ObjectType() == reflect.TypeFor[*metav1.PartialObjectMetadata]() {
		return nil
	}
	return c.source
}

// ListDecoded waits for the rate limiter, and lists.
func (c collectionInternals) ListDecoded(
	ctx context.Context, opts source.ListOptions[tidings.Object], by intake.Decoder[tidings.Object],
	each func(intake.Received[tidings.Object]) error,
) (source.ListResult, error) {
	if err := c.source.admit(ctx); err != nil {
		return source.ListResult{}, err
	}
	return c.httpInternals.ListDecoded(ctx, opts, by, each)
}

// WatchDecoded is Watch for objects that are not metadata.
func (c collectionInternals) WatchDecoded(
	ctx context.Context, opts source.WatchOptions[tidings.Object], by intake.Decoder[tidings.Object],
) (source.Stream[tidings.Object], error) {
	if err := mayStream(opts); err != nil {
		return nil, err
	}
	return c.httpInternals.WatchDecoded(ctx, opts, by)
}

type collectionStream struct{ source.Stream[tidings.Object] }

// Next clears the kinds of metadata.
func (s collectionStream) Next(buf []source.Event[tidings.Object]) ([]source.Event[tidings.Object], error) {
	before := len(buf)
	buf, err := s.Stream.Next(buf)
	for _, event := range buf[min(before, len(buf)):] {
		clearMetadataKind(event.Object)
	}
	return buf, err
}

// clearMetadataKind clears what the source fills in: client-go's metadata clients leave the kind
// empty. It writes to objects that the source has just made only, since those in a store have none.
func clearMetadataKind(obj tidings.Object) {
	if metadata, ok := obj.(*metav1.PartialObjectMetadata); ok && metadata.TypeMeta != (metav1.TypeMeta{}) {
		metadata.TypeMeta = metav1.TypeMeta{}
	}
}

// mayStream returns an error for a watch that client-go's feature gate does not allow.
func mayStream(opts source.WatchOptions[tidings.Object]) error {
	if opts.SendInitialEvents && !streams() {
		return fmt.Errorf("watch: initial events: the feature gate %s is off: %w",
			features.WatchListClient, errors.ErrUnsupported)
	}
	return nil
}

// admit waits until a list may be requested.
func (s *collectionSource) admit(ctx context.Context) error {
	if s.limiter == nil {
		return nil
	}
	if err := s.limiter.Wait(ctx); err != nil {
		return fmt.Errorf("the client's rate limiter: %w", err)
	}
	return nil
}
