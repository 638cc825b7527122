package source

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/object"
)

// bulkyMetadata lists the parts of an object's metadata that do not identify it.
var bulkyMetadata = object.Trim{
	"metadata.managedFields", "metadata.annotations", "metadata.labels", "metadata.ownerReferences", "metadata.finalizers",
}

// ListMetadata is like List, but returns little more of each object than its key, uid and version, and retains nothing
// in memory.
func (h httpInternals[T]) ListMetadata(
	ctx context.Context, opts ListOptions[*metav1.PartialObjectMetadata],
	each func(*metav1.PartialObjectMetadata) error,
) (ListResult, error) {
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
