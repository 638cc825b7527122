package tidingsruntime

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/object"
)

// ReadYourWrites makes reads of the manager's client wait until the cache has seen what reconciles have written before:
//
//	newCache := tidingsruntime.ReadYourWrites(config, tidingsruntime.NewCache) // before clients are made from config
//	mgr, err := ctrl.NewManager(config, ctrl.Options{NewCache: newCache})
//
// It wraps config, so that the writes of any client made from it later are noted if they have a reconcile's context: of
// typed, dynamic, metadata and REST clients, and of controller-runtime's. A Get with a reconcile's context waits for
// the writes to that object, a List for those to objects of that kind in its namespaces, in whatever form they were
// written or are read, and whichever reconcile has made them. A read that has waited for 10 seconds after the write
// fails with an error that names the write and the cache; later reads do not wait for it any more.
//
// newCache must return a cache of this package. See docs/read-your-writes.md in the Tidings repository.
func ReadYourWrites(config *rest.Config, newCache cache.NewCacheFunc) cache.NewCacheFunc {
	writes := controller.NewOwnWrites(0, inReconcile)
	config.Wrap(writes.Wrap)
	return func(config *rest.Config, opts cache.Options) (cache.Cache, error) {
		made, err := newCache(config, opts)
		if err != nil {
			return nil, err
		}
		ours, ok := made.(*runtimeCache)
		if !ok {
			return nil, fmt.Errorf("tidings: ReadYourWrites needs a cache that NewCache or WithOptions makes, not a %T",
				made)
		}
		ours.writes, ours.informers.writes = writes, writes
		return ours, nil
	}
}

// inReconcile reports whether a context is that of a reconcile.
func inReconcile(ctx context.Context) bool { return ctrlcontroller.ReconcileIDFromContext(ctx) != "" }

// waitForWrites waits until the cache has seen the earlier writes to what is read: the object under key, or a list of
// those in its namespace.
func (c *runtimeCache) waitForWrites(ctx context.Context, read runtime.Object, key client.ObjectKey) error {
	if c.writes == nil || !c.writes.Any() || !inReconcile(ctx) {
		return nil
	}
	kind, err := apiutil.GVKForObject(read, c.informers.scheme)
	if err != nil {
		return nil // controller-runtime returns the error as well
	}
	if _, isList := read.(client.ObjectList); isList {
		kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	}
	mapping, err := c.informers.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil // and this one
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		key.Namespace = ""
	}
	return c.writes.Wait(ctx, mapping.Resource.GroupResource(), tidings.Key{Namespace: key.Namespace, Name: key.Name})
}

// track makes writes wait for an informer.
func (inf *informer) track(writes *controller.OwnWrites) {
	inf.untrack = writes.Add(inf.native())
	// It only fails when the informer has ended.
	_, _ = inf.native().HandleKeys("own writes", func(tidings.Key, object.DeltaType, bool) { writes.Changed() })
}
