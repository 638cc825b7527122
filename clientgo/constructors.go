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

// NewSharedIndexInformerWithOptions returns an informer for the objects that lw lists and watches.
// It takes any ListerWatcher, such as those that the generated informers of a custom resource
// create: call it where they call cache.NewSharedIndexInformerWithOptions. Because lw decodes the
// objects, an informer from NewSharedInformerFactory is lighter, and so is one over a ListWatch from
// NewListWatchFromClient.
//
// The objects must be metav1.Objects of the example's type; a nil example accepts all types. An
// object of another type fails a list, and is reported as an invalid event of a watch. client-go's
// metrics are published under the Identifier, by the InformerMetricsProvider or, if that is nil, by
// the provider passed to client-go's SetInformerMetricsProvider: queued items are those not yet
// delivered to the handlers, and the processing latency is that of each handler call. A nil lw, a
// nil index function or a duplicate index name panics.
func NewSharedIndexInformerWithOptions(lw cache.ListerWatcher, example runtime.Object, opts cache.SharedIndexInformerOptions) cache.SharedIndexInformer {
	inf, err := newListWatchInformer(lw, example, opts)
	if err != nil {
		panic(fmt.Errorf("clientgo: new informer for %s: %w", typeDescription(example, opts.ObjectDescription), err))
	}
	return inf
}

// typeDescription returns what client-go calls the objects of an informer.
func typeDescription(example runtime.Object, description string) string {
	return cache.NewReflectorWithOptions(nil, example, nil, cache.ReflectorOptions{Name: "clientgo", TypeDescription: description}).TypeDescription()
}

func newListWatchInformer(lw cache.ListerWatcher, example runtime.Object, opts cache.SharedIndexInformerOptions) (*informer, error) {
	src, err := newInformerSource(lw, example)
	if err != nil {
		return nil, err
	}
	inf := &informer{metrics: newInformerMetrics(opts.Identifier, opts.InformerMetricsProvider), shard: shardOf(opts)}
	what := typeDescription(example, opts.ObjectDescription)
	native, err := tidings.NewInformer(src, tidings.InformerOptions[tidings.Object]{
		Name: what, Options: tidings.Options{OnError: inf.handleError, Logger: klogLogger()},
	})
	if err != nil {
		return nil, err
	}
	return inf, inf.init(native, fmt.Sprintf("%T", example), what, opts.ResyncPeriod, opts.Indexers)
}
