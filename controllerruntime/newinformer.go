package tidingsruntime

import (
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/tidings/tidings/clientgo"
)

// newInformerFunc is the type of cache.Options.NewInformer.
type newInformerFunc = func(
	toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers,
) toolscache.SharedIndexInformer

// InformerMetrics makes the informers of a cache publish client-go's metrics under a name, one informer a resource, to
// a provider or, if that is nil, to the one set with client-go's SetInformerMetricsProvider:
//
//	ctrl.Options{NewCache: tidingsruntime.InformerMetrics(tidingsruntime.NewCache, name, nil)}
//
// A program that sets cache.Options.NewInformer for that only need not change. newCache must return a cache of this
// package.
func InformerMetrics(
	newCache cache.NewCacheFunc, name *toolscache.InformerName, provider toolscache.InformerMetricsProvider,
) cache.NewCacheFunc {
	return func(config *rest.Config, opts cache.Options) (cache.Cache, error) {
		made, err := newCache(config, opts)
		if err != nil {
			return nil, err
		}
		ours, ok := made.(*runtimeCache)
		if !ok {
			return nil, fmt.Errorf("tidings: InformerMetrics needs a cache that NewCache or WithOptions makes, not a %T", made)
		}
		ours.informers.metricsName, ours.informers.metricsProvider = name, provider
		return ours, nil
	}
}

// customized calls the program's NewInformer, if there is one. It returns the informer that is used as it is, or else
// nil and the options for ours.
func (is *informers) customized(
	lw toolscache.ListerWatcher, example runtime.Object, options toolscache.SharedIndexInformerOptions,
) (toolscache.SharedIndexInformer, toolscache.SharedIndexInformerOptions) {
	if is.custom == nil {
		return nil, options
	}
	made := is.custom(lw, example, options.ResyncPeriod, options.Indexers)
	if own, ok := optionsOf(made, lw); ok {
		return nil, own
	}
	if _, ours := clientgo.NativeInformer(made); !ours {
		logger().Info("Warning: the informer runs on client-go's engine, because cache.Options.NewInformer returned one that has more than options",
			"type", fmt.Sprintf("%T", example))
	}
	return made, options
}

// optionsOf returns the options of an informer that client-go made for lw. It returns false if the informer has
// anything else: a transform, a watch error handler, handlers, or keys or a shard of its own. client-go does not
// reveal these, so they are read from its fields.
func optionsOf(
	made toolscache.SharedIndexInformer, lw toolscache.ListerWatcher,
) (options toolscache.SharedIndexInformerOptions, plain bool) {
	like := toolscache.NewSharedIndexInformer(lw, nil, 0, nil)
	if made == nil || reflect.TypeOf(made) != reflect.TypeOf(like) {
		return options, false
	}
	fields, fresh := reflect.ValueOf(made).Elem(), reflect.ValueOf(like).Elem()
	lists, known := fieldOf[toolscache.ListerWatcher](fields, "listerWatcher")
	if !known || lists != lw || !sameKeys(fields, fresh) || hasHandlers(fields) {
		return options, false
	}
	for _, name := range []string{"transform", "watchErrorHandler", "shardSelector"} {
		if field := fields.FieldByName(name); field.IsValid() && !field.IsNil() {
			return options, false
		}
	}
	options.Indexers = made.GetIndexer().GetIndexers()
	var knows [3]bool
	options.ResyncPeriod, knows[0] = fieldOf[time.Duration](fields, "defaultEventHandlerResyncPeriod")
	options.Identifier, knows[1] = fieldOf[toolscache.InformerNameAndResource](fields, "identifier")
	options.InformerMetricsProvider, knows[2] = fieldOf[toolscache.InformerMetricsProvider](fields, "informerMetricsProvider")
	return options, knows == [3]bool{true, true, true}
}

// fieldOf returns an unexported field of an addressable struct, or false if it has none of that name and type.
func fieldOf[T any](fields reflect.Value, name string) (value T, ok bool) {
	field := fields.FieldByName(name)
	if !field.IsValid() || field.Type() != reflect.TypeFor[T]() {
		return value, false
	}
	return *(*T)(field.Addr().UnsafePointer()), true // safe because that is the type of the field
}

// sameKeys reports whether two informers make keys in the same way.
func sameKeys(fields, fresh reflect.Value) bool {
	a, b := fields.FieldByName("keyFunc"), fresh.FieldByName("keyFunc")
	return !a.IsValid() || a.Pointer() == b.Pointer()
}

// hasHandlers reports whether an informer may have handlers.
func hasHandlers(fields reflect.Value) bool {
	processor := fields.FieldByName("processor")
	if !processor.IsValid() || processor.Kind() != reflect.Pointer {
		return true
	}
	listeners := processor.Elem().FieldByName("listeners")
	return !listeners.IsValid() || listeners.Kind() != reflect.Map || listeners.Len() > 0
}
