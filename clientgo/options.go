package clientgo

import (
	"log/slog"
	"reflect"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tidings/tidings"
)

// Option is a factory option. The functions that return options have the names of those in
// client-go's informers package.
type Option func(*factoryOptions)

type factoryOptions struct {
	namespace    string
	tweak        internalinterfaces.TweakListOptionsFunc // never nil
	tweaked      bool                                    // whether the caller set tweak
	resync       map[reflect.Type]time.Duration
	transform    cache.TransformFunc
	shard        sharding.Selector // nil for all objects
	informerName *cache.InformerName
	native       tidings.Options
	watches      *sharedWatches
}

func newFactoryOptions(options []Option) factoryOptions {
	o := factoryOptions{
		tweak: func(*metav1.ListOptions) {}, resync: map[reflect.Type]time.Duration{}, watches: new(sharedWatches),
	}
	for _, option := range options {
		option(&o)
	}
	if o.native.Logger == nil {
		o.native.Logger = klogLogger()
	}
	o.native.NoWatchList = o.native.NoWatchList || !streams()
	return o
}

// listOptions returns what the caller's function makes of empty list options.
func (o factoryOptions) listOptions() (options metav1.ListOptions) {
	o.tweak(&options)
	return options
}

// upstream returns the options for client-go's factory, without the informer name, which only one factory can have.
func (o factoryOptions) upstream() []informers.SharedInformerOption {
	resync := map[metav1.Object]time.Duration{}
	for t, period := range o.resync {
		resync[reflect.Zero(t).Interface().(metav1.Object)] = period
	}
	return []informers.SharedInformerOption{
		informers.WithNamespace(o.namespace), informers.WithTweakListOptions(o.tweak),
		informers.WithTransform(o.transform), informers.WithCustomResyncConfig(resync),
	}
}

// klogLogger returns a logger that writes to klog, as client-go does.
func klogLogger() *slog.Logger { return slog.New(logr.ToSlogHandler(klog.Background())) }

// WithNamespace limits the factory to one namespace. Cluster-scoped resources are not limited.
func WithNamespace(namespace string) Option {
	return func(o *factoryOptions) { o.namespace = namespace }
}

// WithTweakListOptions limits what the factory's informers list. A factory with a rest.Config calls
// tweak and uses the label and field selectors; a resource version of "0" sets tidings.Options.FirstFromCache. If tweak
// sets other options, they are logged and ignored. A factory with a client calls it for each request.
func WithTweakListOptions(tweak internalinterfaces.TweakListOptionsFunc) Option {
	return func(o *factoryOptions) {
		if tweak != nil {
			o.tweak, o.tweaked = tweak, true
		}
	}
}

// WithCustomResyncConfig sets resync periods by type; the keys are objects of these types.
func WithCustomResyncConfig(periods map[metav1.Object]time.Duration) Option {
	return func(o *factoryOptions) {
		for obj, period := range periods {
			o.resync[reflect.TypeOf(obj)] = period
		}
	}
}

// WithTransform sets a transform for all informers; see their SetTransform for what it may do.
func WithTransform(transform cache.TransformFunc) Option {
	return func(o *factoryOptions) { o.transform = transform }
}

// WithInformerName sets the name under which the factory's informers publish client-go's metrics,
// if a provider was set with client-go's SetInformerMetricsProvider; see
// NewSharedIndexInformerWithOptions. Shutdown releases the name.
func WithInformerName(name *cache.InformerName) Option {
	return func(o *factoryOptions) { o.informerName = name }
}

// WithOptions sets the factory's native options, for which client-go has no counterpart. Without a
// Logger, messages go to klog.
func WithOptions(options tidings.Options) Option {
	return func(o *factoryOptions) { o.native = options }
}
