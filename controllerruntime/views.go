package tidingsruntime

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/internal/forms"
)

// OneWatch makes the forms of a kind that a program reads, structured, unstructured and metadata, share one watch and
// one store where one form can be made from another:
//
//	ctrl.Options{NewCache: tidingsruntime.OneWatch(tidingsruntime.NewCache)}
//
// The first form asked for is held. Objects of another form are made when they are read or handed to a handler, which
// takes CPU each time, unless somebody holds what was made before. Unstructured objects made from structured ones lack
// fields that the Go type lacks: use it with a k8s.io/api that is not older than the cluster.
//
// A form that cannot be made has a watch of its own, as all have without OneWatch. Structured and unstructured objects
// are made from each other for the kinds and types of k8s.io/api only, and nothing is made from metadata. A kind with a
// transform other than controller-runtime's TransformStripManagedFields shares nothing. newCache must return a cache of
// this package.
func OneWatch(newCache cache.NewCacheFunc) cache.NewCacheFunc {
	return func(config *rest.Config, opts cache.Options) (cache.Cache, error) {
		made, err := newCache(config, opts)
		if err != nil {
			return nil, err
		}
		ours, ok := made.(*runtimeCache)
		if !ok {
			return nil, fmt.Errorf("tidings: OneWatch needs a cache that NewCache or WithOptions makes, not a %T", made)
		}
		ours.informers.oneWatch = true
		return ours, nil
	}
}

// sharedWatch is one list and watch with its store. Informers of several forms may share it.
type sharedWatch struct {
	held informerInfo // the form and type of the objects
	// trim, noBookmarks and transformed say how the objects arrive.
	trim                     string
	noBookmarks, transformed bool
}

// selectsLike reports whether a watch brings the same objects as another, if both were of the same form.
func (w *sharedWatch) selectsLike(other *sharedWatch) bool {
	a, b := w.held, other.held
	return a.kind == b.kind && a.scope.Namespace == b.scope.Namespace && a.scope.Labels == b.scope.Labels &&
		a.scope.Fields == b.scope.Fields && w.trim == other.trim && w.noBookmarks == other.noBookmarks &&
		!w.transformed && !other.transformed
}

// view returns an informer over the watch of another one that holds the same objects. It is nil if there is none.
func (is *informers) view(inf *informer) toolscache.SharedIndexInformer {
	if !is.oneWatch {
		return nil
	}
	for _, other := range is.all() {
		if !other.watch.selectsLike(inf.watch) {
			continue
		}
		convert, ok := conversion(other.watch.held, inf.info)
		if !ok {
			continue
		}
		made, err := clientgo.NewSharedIndexInformerView(other.SharedIndexInformer, convert, inf.options)
		if err != nil { // it has just ended, or the program has given it a transform
			continue
		}
		inf.watch = other.watch
		is.mu.Lock()
		is.unkept = append(is.unkept, made)
		is.mu.Unlock()
		return made
	}
	return nil
}

// conversion returns the function that makes the wanted objects from those that are held; nil if they are the same. ok
// is false if it is impossible. In controller-runtime's caches, metadata has the kind of the object.
func conversion(held, wanted informerInfo) (convert func(tidings.Object) (tidings.Object, error), ok bool) {
	convert, ok = forms.Conversion(held.kind, held.goType, wanted.goType)
	if convert != nil && wanted.form == metadataOnly {
		return withKind(held.kind, convert), true
	}
	return convert, ok
}

// withKind returns a function that sets the kind of what convert makes.
func withKind(
	kind schema.GroupVersionKind, convert func(tidings.Object) (tidings.Object, error),
) func(tidings.Object) (tidings.Object, error) {
	return func(obj tidings.Object) (tidings.Object, error) {
		made, err := convert(obj)
		if err == nil {
			made.GetObjectKind().SetGroupVersionKind(kind)
		}
		return made, err
	}
}
