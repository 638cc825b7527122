package intake

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The types that have Internals assert at compile time that these are what other packages rely on.

// Reflector are the internals of a reflector.Reflector. S is reflector.Skipped.
type Reflector[S any] interface {
	// Relist makes the reflector list the most recent state of the collection, without reusing any of the sink's
	// objects. It does not wait, and may be called from any goroutine.
	Relist(cause error)
	// AllSkipped returns all objects whose present state could not be decoded, sorted by key.
	AllSkipped() []S
}

// ReflectorOf returns the internals of a reflector.Reflector.
func ReflectorOf[S any](r any) Reflector[S] { return InternalsOf(r).(Reflector[S]) }

// MetadataLister are the internals of a source that can list metadata only, which is cheaper. O and R are
// source.ListOptions of metadata and source.ListResult.
type MetadataLister[O, R any] interface {
	ListMetadata(ctx context.Context, opts O, each func(*metav1.PartialObjectMetadata) error) (R, error)
}

// RawClient are the internals of a source.Client. S is source.Scope, and H the source it returns.
type RawClient[S, H any] interface {
	// NewRaw returns a source of the scope's objects as the server sends them: in protobuf, or in JSON.
	NewRaw(scope S, protobuf bool) (H, error)
}
