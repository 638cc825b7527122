package tidingsruntime

import (
	"context"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/tidings/tidings"
)

// NewDrainedInformer returns a client-go informer whose watches leave no goroutine behind when they are stopped; see
// drainedWatch.
func NewDrainedInformer(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	through := listWatch{toolscache.ToListerWatcherWithContext(lw)}
	return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
		ListWithContextFunc: through.List,
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return through.Watch(ctx, opts)
		},
	}, example, resync, indexers)
}

// StripsManagedFields exposes which transforms are replaced by a Trim.
var StripsManagedFields = stripsManagedFields

// InFactory returns the number of informers in the factory behind a cache.
func InFactory(c cache.Cache) int { return len(c.(*runtimeCache).informers.factory.Status()) }

// Convert makes an object like the example from one of another form, as views do. It returns false if there is no such
// view.
func Convert(obj tidings.Object, kind schema.GroupVersionKind, example tidings.Object) (tidings.Object, bool, error) {
	info := func(o tidings.Object) informerInfo {
		return informerInfo{kind: kind, form: formOf(o), goType: reflect.TypeOf(o)}
	}
	convert, ok := conversion(info(obj), info(example))
	if !ok {
		return nil, false, nil
	}
	made, err := convert(obj)
	return made, true, err
}
