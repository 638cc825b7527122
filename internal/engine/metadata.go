package engine

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// metadataLister are the internals of a source that can list metadata only, which is cheaper: source.HTTP is one.
type metadataLister = intake.MetadataLister[source.ListOptions[*metav1.PartialObjectMetadata], source.ListResult]

// listMetadata lists the identities of a source's objects: as metadata if it is a metadataLister, otherwise with List.
// The options that say what to list apply; others are ignored. Objects that cannot be decoded are left out.
func listMetadata[T object.Object](
	ctx context.Context, src source.ListerWatcher[T], opts source.ListOptions[T], each func(metav1.Object) error,
) (source.ListResult, error) {
	lister, ok := intake.OwnInternalsOf(src).(metadataLister)
	if !ok {
		opts.Skip = func(*source.ObjectError) {}
		return src.List(ctx, opts, func(o T) error { return each(o) })
	}
	metadata := source.ListOptions[*metav1.PartialObjectMetadata]{
		ResourceVersion: opts.ResourceVersion, ResourceVersionMatch: opts.ResourceVersionMatch,
		Continue: opts.Continue, Limit: opts.Limit, Skip: func(*source.ObjectError) {},
	}
	return lister.ListMetadata(ctx, metadata, func(m *metav1.PartialObjectMetadata) error { return each(m) })
}
