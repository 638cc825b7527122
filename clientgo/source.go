package clientgo

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
)

// NewSharedIndexInformerFromSource returns an informer that belongs to a factory of Tidings and takes its objects from what newSource makes, for packages
// that sit between client-go's interfaces and the engine. It is as light as one from NewSharedInformerFactory, and nobody else gets it. It runs when it is
// run, not when the factory starts. client-go's options are meant as by NewSharedIndexInformerWithOptions; the transform is SetTransform's. A nil source, a nil index function and one whose name is taken are errors.
func NewSharedIndexInformerFromSource(f *tidings.Factory, scope tidings.Scope, newSource tidings.SourceFunc[tidings.Object],
	options cache.SharedIndexInformerOptions,
) (cache.SharedIndexInformer, error) {
	if newSource == nil {
		return nil, errors.New("clientgo: new informer: the source is nil")
	}
	inf := &informer{metrics: newInformerMetrics(options.Identifier, options.InformerMetricsProvider)}
	native, err := tidings.UnsharedInformer(f, scope, tidings.UnsharedOptions[tidings.Object]{
		Name: options.ObjectDescription, Source: newSource, OnError: inf.failed,
	})
	if err != nil {
		return nil, err
	}
	if err := inf.init(native, options.ObjectDescription, options.ResyncPeriod, options.Indexers); err != nil {
		return nil, errors.Join(fmt.Errorf("clientgo: new informer for %s: %w", options.ObjectDescription, err), native.Stop(context.Background()))
	}
	return inf, nil
}

// NativeInformer returns the Tidings informer behind one that this package made; false for others. It has the status. Its life belongs
// to the informer: do not start it, and stop it only if the informer is not to be run, or not any more.
func NativeInformer(inf cache.SharedIndexInformer) (*tidings.SharedInformer[tidings.Object], bool) {
	ours, ok := inf.(*informer)
	if !ok {
		return nil, false
	}
	return ours.native, true
}
