package source

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/object"
)

// MetadataLister is implemented by sources that can list metadata only, which is cheaper. HTTP is one.
type MetadataLister interface {
	// ListMetadata is like ListerWatcher.List, but returns little more of each object than its key, uid and version.
	ListMetadata(ctx context.Context, opts ListOptions[*metav1.PartialObjectMetadata], each func(*metav1.PartialObjectMetadata) error) (ListResult, error)
}

// ListMetadata lists the identities of a source's objects: with ListMetadata if it is a
// MetadataLister, otherwise with List. The options that say what to list apply; others are ignored.
// Objects that cannot be decoded are left out.
func ListMetadata[T object.Object](ctx context.Context, src ListerWatcher[T], opts ListOptions[T], each func(metav1.Object) error) (ListResult, error) {
	lister, ok := src.(MetadataLister)
	if !ok {
		opts.Skip = func(*ObjectError) {}
		return src.List(ctx, opts, func(o T) error { return each(o) })
	}
	metadata := ListOptions[*metav1.PartialObjectMetadata]{
		ResourceVersion: opts.ResourceVersion, ResourceVersionMatch: opts.ResourceVersionMatch, Continue: opts.Continue, Limit: opts.Limit,
		Skip: func(*ObjectError) {},
	}
	return lister.ListMetadata(ctx, metadata, func(m *metav1.PartialObjectMetadata) error { return each(m) })
}

// bulkyMetadata lists the parts of an object's metadata that do not identify it.
var bulkyMetadata = object.Trim{
	"metadata.managedFields", "metadata.annotations", "metadata.labels", "metadata.ownerReferences", "metadata.finalizers",
}

// ListMetadata implements MetadataLister. It retains nothing in memory.
func (h *HTTP[T]) ListMetadata(ctx context.Context, opts ListOptions[*metav1.PartialObjectMetadata], each func(*metav1.PartialObjectMetadata) error) (ListResult, error) {
	scope := h.scope
	scope.Trim = bulkyMetadata
	metadata, err := NewHTTP[*metav1.PartialObjectMetadata](h.client, scope)
	if err != nil {
		return ListResult{}, err
	}
	result, err := metadata.List(ctx, opts, each)
	h.stats.bytes.Add(metadata.stats.bytes.Load())
	return result, err
}
