package measure

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

type clientGoWrites struct {
	informer cache.SharedIndexInformer
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

func newClientGoWrites(d *driver) *clientGoWrites {
	return &clientGoWrites{informer: cache.NewSharedIndexInformerWithOptions(
		&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
				return d.List(ctx, opts)
			},
			WatchFuncWithContext: d.Watch,
		},
		&corev1.Pod{},
		cache.SharedIndexInformerOptions{Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}},
	)}
}

func (c *clientGoWrites) start(ctx context.Context, update func()) error {
	reg, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { update() }})
	if err != nil {
		return fmt.Errorf("start client-go: %w", err)
	}
	run, cancel := context.WithCancel(ctx)
	c.cancel = cancel
	c.running.Go(func() { c.informer.RunWithContext(run) })
	return waitDone(ctx, reg.HasSyncedChecker())
}

func waitDone(ctx context.Context, checker cache.DoneChecker) error {
	select {
	case <-checker.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", checker.Name(), context.Cause(ctx))
	}
}

func (c *clientGoWrites) list() error {
	return cache.ListAllByNamespace(c.informer.GetIndexer(), benchNamespace, labels.Everything(), func(any) {})
}

func (c *clientGoWrites) addHandlers(ctx context.Context, n int) error {
	for range n {
		changes := 0
		reg, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { changes++ }})
		if err != nil {
			return fmt.Errorf("add a handler to client-go: %w", err)
		}
		if err := waitDone(ctx, reg.HasSyncedChecker()); err != nil {
			return err
		}
	}
	return nil
}

func (c *clientGoWrites) stop() {
	c.cancel()
	c.running.Wait()
}

type tidingsWrites struct {
	informer *tidings.SharedInformer[*corev1.Pod]
	lister   tidings.Lister[*corev1.Pod]
}

// everyChange makes handlers hear of every change, as client-go's do. With the default they would skip some, which is
// less work.
var everyChange = tidings.Subscription{Policy: tidings.Block}

func newTidingsWrites(d *driver) (*tidingsWrites, error) {
	src, err := source.FromClient[*corev1.Pod](d, source.Selection{})
	if err != nil {
		return nil, fmt.Errorf("start tidings: %w", err)
	}
	informer, err := tidings.NewInformer(src, tidings.InformerOptions[*corev1.Pod]{Name: "pods"})
	if err != nil {
		return nil, fmt.Errorf("start tidings: %w", err)
	}
	tidings.AddIndex(informer, "namespace", func(pod *corev1.Pod) []string { return []string{pod.Namespace} })
	return &tidingsWrites{informer: informer, lister: informer.Lister().Namespace(benchNamespace)}, nil
}

func (t *tidingsWrites) start(ctx context.Context, update func()) error {
	reg, err := t.informer.AddHandler(tidings.HandlerFuncs[*corev1.Pod]{Update: func(_, _ *corev1.Pod) { update() }}, everyChange)
	if err != nil {
		return fmt.Errorf("start tidings: %w", err)
	}
	if err := t.informer.Start(ctx); err != nil {
		return fmt.Errorf("start tidings: %w", err)
	}
	return reg.WaitForSync(ctx)
}

func (t *tidingsWrites) list() error {
	for range t.lister.All() {
	}
	return nil
}

func (t *tidingsWrites) addHandlers(ctx context.Context, n int) error {
	for range n {
		changes := 0
		reg, err := t.informer.AddHandler(tidings.HandlerFuncs[*corev1.Pod]{Update: func(_, _ *corev1.Pod) { changes++ }}, everyChange)
		if err != nil {
			return fmt.Errorf("add a handler to tidings: %w", err)
		}
		if err := reg.WaitForSync(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (t *tidingsWrites) stop() { _ = t.informer.Stop(context.Background()) } // without an end, Stop has no error
