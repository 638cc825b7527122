package tidings

import (
	"iter"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// internals are methods that only this module's packages see.
type internals = intake.Internals

// informerInternals are the internals of SharedInformer.
type informerInternals[T Object] struct {
	inf    *SharedInformer[T]
	server *url.URL
}

func newInternals[T Object](inf *SharedInformer[T], client *source.Client) internals {
	i := informerInternals[T]{inf: inf}
	if client != nil {
		i.server = intake.InternalsOf(client).(interface{ Base() *url.URL }).Base()
	}
	return intake.NewInternals(i)
}

// Self returns the informer that has these internals.
func (i informerInternals[T]) Self() any { return i.inf }

// Server returns the base URL of the API server that the objects come from; nil if it is not known. It must not be
// modified.
func (i informerInternals[T]) Server() *url.URL { return i.server }

// Rewrites returns how often the content of the newest snapshot was replaced by that of another history, as after a
// restore of the server.
func (i informerInternals[T]) Rewrites() uint64 { return i.inf.Snapshot().snap.Rewrites() }

// Keys iterates over the keys of the objects in the newest snapshot.
func (i informerInternals[T]) Keys() iter.Seq[object.Key] { return i.inf.Snapshot().Keys() }

// Held iterates over the objects of a namespace in the newest snapshot; All is every namespace.
func (i informerInternals[T]) Held(namespace string) iter.Seq[metav1.Object] {
	return func(yield func(metav1.Object) bool) {
		for _, obj := range i.inf.Snapshot().Namespace(namespace) {
			if !yield(obj) {
				return
			}
		}
	}
}

var _ intake.Mutations = informerInternals[Object]{}

// GuardsMutations implements intake.Mutations.
func (i informerInternals[T]) GuardsMutations() bool { return i.inf.core.GuardsMutations() }

// ReportMutation implements intake.Mutations.
func (i informerInternals[T]) ReportMutation(key object.Key, handler string) {
	i.inf.core.ReportMutation(key, handler)
}
