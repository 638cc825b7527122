package clientgo

import (
	"log/slog"
	"reflect"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tidings/tidings"
)

// Option is an option of a factory. The functions that make one have the names of those in client-go's informers package.
type Option func(*factoryOptions)

type factoryOptions struct {
	namespace    string
	tweak        internalinterfaces.TweakListOptionsFunc // never nil
	tweaked      bool                                    // by the caller
	resync       map[reflect.Type]time.Duration
	transform    cache.TransformFunc
	informerName *cache.InformerName
	native       tidings.Options
}

func newFactoryOptions(options []Option) factoryOptions {
	o := factoryOptions{tweak: func(*metav1.ListOptions) {}, resync: map[reflect.Type]time.Duration{}}
	for _, option := range options {
		option(&o)
	}
	if o.native.Logger == nil {
		o.native.Logger = klogLogger()
	}
	return o
}

// klogLogger logs where client-go does.
func klogLogger() *slog.Logger { return slog.New(logr.ToSlogHandler(klog.Background())) }

// WithNamespace limits the factory to one namespace. Resources without namespaces are not limited.
func WithNamespace(namespace string) Option {
	return func(o *factoryOptions) { o.namespace = namespace }
}

// WithTweakListOptions limits what the factory's informers list. A factory with a rest.Config calls tweak once, and takes the label and the field
// selector from it; other options that it sets are logged and left out. A factory with a client calls it for each request.
func WithTweakListOptions(tweak internalinterfaces.TweakListOptionsFunc) Option {
	return func(o *factoryOptions) {
		if tweak != nil {
			o.tweak, o.tweaked = tweak, true
		}
	}
}

// WithCustomResyncConfig sets the resync periods of some types, given by an object of each.
func WithCustomResyncConfig(periods map[metav1.Object]time.Duration) Option {
	return func(o *factoryOptions) {
		for obj, period := range periods {
			o.resync[reflect.TypeOf(obj)] = period
		}
	}
}

// WithTransform sets a transform for all informers; see SetTransform of the informers for what it may do.
func WithTransform(transform cache.TransformFunc) Option {
	return func(o *factoryOptions) { o.transform = transform }
}

// WithInformerName sets the name under which the factory's informers publish client-go's metrics, if client-go's SetInformerMetricsProvider was given a provider
// for them; see NewSharedIndexInformerWithOptions. Shutdown releases it.
func WithInformerName(name *cache.InformerName) Option {
	return func(o *factoryOptions) { o.informerName = name }
}

// WithOptions sets what client-go has no option for: the native options of the factory. Without a logger, messages go to
// klog.
func WithOptions(options tidings.Options) Option {
	return func(o *factoryOptions) { o.native = options }
}
