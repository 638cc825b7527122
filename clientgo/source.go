package clientgo

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
)

// NewSharedIndexInformerFromSource returns an informer that belongs to a Tidings factory and gets
// its objects from the source that newSource returns. It is for packages between client-go's
// interfaces and the engine. It is as light as an informer from NewSharedInformerFactory, and is
// not shared with other callers. It does not start with the factory: call its Run. The options mean
// the same as for NewSharedIndexInformerWithOptions; the transform is as for SetTransform. A nil
// source, a nil index function or a duplicate index name is an error.
func NewSharedIndexInformerFromSource(f *tidings.Factory, scope tidings.Scope, newSource tidings.SourceFunc[tidings.Object],
	options cache.SharedIndexInformerOptions,
) (cache.SharedIndexInformer, error) {
	if newSource == nil {
		return nil, errors.New("clientgo: new informer: the source is nil")
	}
	inf := &informer{metrics: newInformerMetrics(options.Identifier, options.InformerMetricsProvider)}
	inf.sharing, inf.shard = &sharing{all: []*informer{inf}}, shardOf(options)
	inf.sharing.transformed = inf.shard != nil
	native, err := tidings.UnsharedInformer(f, scope, tidings.UnsharedOptions[tidings.Object]{
		Name: options.ObjectDescription, Source: newSource, OnError: inf.sharing.handleError,
	})
	if err != nil {
		return nil, err
	}
	if err := inf.init(native, options.ObjectDescription, options.ObjectDescription, options.ResyncPeriod, options.Indexers); err != nil {
		return nil, errors.Join(fmt.Errorf("clientgo: new informer for %s: %w", options.ObjectDescription, err), native.Stop(context.Background()))
	}
	return inf, nil
}

// NativeInformer returns the Tidings informer behind one of this package's informers, or behind what wraps one, such as
// client-go's typed informers; and false for any other. Use it for its status. inf manages its lifecycle: do not start
// it, and stop it only if inf will not be run, or not run any longer.
func NativeInformer(inf cache.SharedIndexInformer) (*tidings.SharedInformer[tidings.Object], bool) {
	ours, ok := oursOf(inf)
	if !ok {
		return nil, false
	}
	return ours.native, true
}

// oursOf returns the informer on our engine that inf is or wraps. It asks the controller, because wrappers such as typed
// informers pass that through.
func oursOf(inf cache.SharedIndexInformer) (*informer, bool) {
	if inf == nil {
		return nil, false
	}
	c, ok := inf.GetController().(idleController)
	return c.inf, ok
}
