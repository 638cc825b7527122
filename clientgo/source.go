package clientgo

import (
	"errors"
	"fmt"

	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// NewSharedIndexInformerFromSource returns an informer of what one of Tidings' own sources has, for packages that sit between client-go's
// interfaces and the engine. It is as light as one from NewSharedInformerFactory. The options are those of the native informer that it makes; without a
// logger, messages go to klog. client-go's options are meant as by NewSharedIndexInformerWithOptions;
// the transform is SetTransform's. A nil source, a nil index function and one whose name is taken are errors.
func NewSharedIndexInformerFromSource(src source.ListerWatcher[tidings.Object], opts tidings.Options, options cache.SharedIndexInformerOptions) (cache.SharedIndexInformer, error) {
	if src == nil {
		return nil, errors.New("clientgo: new informer: the source is nil")
	}
	if opts.Logger == nil {
		opts.Logger = klogLogger()
	}
	inf, report := &informer{metrics: newInformerMetrics(options.Identifier, options.InformerMetricsProvider)}, opts.OnError
	opts.OnError = func(err error) {
		if report != nil {
			report(err)
		}
		inf.failed(err)
	}
	native, err := tidings.NewInformer(src, tidings.InformerOptions[tidings.Object]{Options: opts, Name: options.ObjectDescription})
	if err != nil {
		return nil, err
	}
	if err := inf.init(native, options.ObjectDescription, options.ResyncPeriod, options.Indexers); err != nil {
		return nil, fmt.Errorf("clientgo: new informer for %s: %w", options.ObjectDescription, err)
	}
	return inf, nil
}

// NativeInformer returns the Tidings informer behind one that this package made; false for others. It has the status. Its life belongs
// to the informer: do not start or stop it.
func NativeInformer(inf cache.SharedIndexInformer) (*tidings.SharedInformer[tidings.Object], bool) {
	ours, ok := inf.(*informer)
	if !ok {
		return nil, false
	}
	return ours.native, true
}
