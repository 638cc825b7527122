package clientgo

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
)

// NewSharedInformer returns an informer without indexes; see NewSharedIndexInformerWithOptions.
func NewSharedInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration) cache.SharedInformer {
	return NewSharedIndexInformer(lw, example, resync, cache.Indexers{})
}

// NewSharedIndexInformer returns an informer; see NewSharedIndexInformerWithOptions.
func NewSharedIndexInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return NewSharedIndexInformerWithOptions(lw, example, cache.SharedIndexInformerOptions{ResyncPeriod: resync, Indexers: indexers})
}

// NewSharedIndexInformerWithOptions returns an informer of what lw lists and watches. It takes any ListerWatcher, such as the ones that the
// generated informers of a custom resource make: where these call cache.NewSharedIndexInformerWithOptions they can call this
// instead. lw decodes the objects; an informer from NewSharedInformerFactory is lighter.
//
// The objects must be metav1.Objects. One that is not of the example's type ends a list with an error, and makes an event invalid, which
// is reported; a nil example takes all. client-go's metrics are published under the Identifier, of the InformerMetricsProvider or else of the one that was given
// to client-go's SetInformerMetricsProvider: the queued items are those that handlers have not been called for, and the processing
// latency is that of each call. A nil lw, a nil index function and one whose name is taken panic.
func NewSharedIndexInformerWithOptions(lw cache.ListerWatcher, example runtime.Object, opts cache.SharedIndexInformerOptions) cache.SharedIndexInformer {
	what := opts.ObjectDescription
	if what == "" {
		what = fmt.Sprintf("%T", example)
	}
	inf, err := newListWatchInformer(lw, example, what, opts)
	if err != nil {
		panic(fmt.Errorf("clientgo: new informer for %s: %w", what, err))
	}
	return inf
}

func newListWatchInformer(lw cache.ListerWatcher, example runtime.Object, what string, opts cache.SharedIndexInformerOptions) (*informer, error) {
	src, err := newSource(lw, example)
	if err != nil {
		return nil, err
	}
	inf := &informer{metrics: newInformerMetrics(opts.Identifier, opts.InformerMetricsProvider)}
	native, err := tidings.NewInformer(src, tidings.InformerOptions[tidings.Object]{
		Name: what, Options: tidings.Options{OnError: inf.failed, Logger: klogLogger()},
	})
	if err != nil {
		return nil, err
	}
	return inf, inf.init(native, what, opts.ResyncPeriod, opts.Indexers)
}
