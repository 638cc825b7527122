package tidingsruntime

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// listerWatcher is a source of API objects of any type.
type listerWatcher = source.ListerWatcher[tidings.Object]

// newListWatchSource returns a source that sends its requests through lw, which decodes the objects.
func newListWatchSource(lw toolscache.ListerWatcher, scope source.Scope) (listerWatcher, error) {
	return source.FromClient[tidings.Object](listWatch{toolscache.ToListerWatcherWithContext(lw)}, source.Scope{Trim: scope.Trim})
}

// listWatch adapts a ListerWatcher to source.FromClient.
type listWatch struct {
	toolscache.ListerWatcherWithContext
}

func (lw listWatch) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return lw.ListWithContext(ctx, opts)
}

func (lw listWatch) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	w, err := lw.WatchWithContext(ctx, opts)
	if err != nil {
		cancel()
		return nil, err
	}
	return drainedWatch{w, cancel}, nil
}

// drainedWatch is a watch whose goroutines have ended when Stop returns. Without it, a watch of
// metadata leaves a goroutine that waits for somebody to receive its last event.
type drainedWatch struct {
	watch.Interface
	cancel context.CancelFunc
}

// Stop ends the watch and drains its events.
func (d drainedWatch) Stop() {
	d.cancel()
	d.Interface.Stop()
	for range d.ResultChan() {
	}
}
