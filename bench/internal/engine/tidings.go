package engine

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/bench/internal/server"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/store"
	"github.com/tidings/tidings/workqueue"
)

// everyChange makes handlers receive every change, as client-go's do. By default they would skip some, which is less
// work.
var everyChange = tidings.HandlerOptions{Policy: tidings.Block}

type ours[T tidings.Object] struct {
	factory   *tidings.Factory
	informers []*tidings.SharedInformer[T]
}

func startTidings(ctx context.Context, c Config, see func(version string)) (Engine, error) {
	if c.Encoding == server.JSON {
		return startTidingsOf(ctx, c, see, unstructuredNode)
	}
	switch c.Corpus {
	case corpus.ConfigMaps:
		return startTidingsOf(ctx, c, see, byNamespace[*corev1.ConfigMap])
	case corpus.Events:
		return startTidingsOf(ctx, c, see, byNamespace[*corev1.Event])
	case corpus.Leases:
		return startTidingsOf(ctx, c, see, byNamespace[*coordinationv1.Lease])
	case corpus.Nodes:
		return startTidingsOf(ctx, c, see, byNamespace[*corev1.Node])
	default:
		return startTidingsOf(ctx, c, see, podNode)
	}
}

func byNamespace[T tidings.Object](obj T) []string { return []string{obj.GetNamespace()} }

func startTidingsOf[T tidings.Object](ctx context.Context, c Config, see func(version string), index func(T) []string) (Engine, error) {
	factory, err := tidings.NewFactory(c.rest(), tidings.Options{
		NoMutationGuard: c.NoGuard, NoWatchList: c.Paged, MemoryBudget: c.Budget, Files: tidings.Files{Dir: c.Dir},
		KeepOpen: c.KeepOpen,
	})
	if err != nil {
		return nil, fmt.Errorf("start tidings: %w", err)
	}
	e := &ours[T]{factory: factory}
	for _, namespace := range c.namespaces() {
		informer, err := tidings.Informer[T](factory, tidings.Scope{Resource: c.Corpus.Kind().Resource, Namespaces: []string{namespace}})
		if err != nil {
			return nil, fmt.Errorf("start tidings: %w", err)
		}
		var handler tidings.Handler[T] = tidings.HandlerFuncs[T]{
			Add:    func(obj T, _ bool) { see(obj.GetResourceVersion()) },
			Update: func(_, obj T) { see(obj.GetResourceVersion()) },
			Delete: func(gone tidings.Tombstone[T]) { see(gone.Object.GetResourceVersion()) },
		}
		if c.Keys {
			handler = tidings.KeyHandler[T](func(tidings.Key) { see("") })
		} else {
			informer.AddIndex("index", index)
		}
		if _, err := informer.AddHandler(handler, tidings.HandlerOptions{}); err != nil {
			return nil, fmt.Errorf("start tidings: %w", err)
		}
		e.informers = append(e.informers, informer)
	}
	if err := factory.Start(ctx); err != nil {
		return nil, fmt.Errorf("start tidings: %w", err)
	}
	return e, nil
}

func (e *ours[T]) AddHandlers(ctx context.Context, n int) error {
	return addTidingsHandlers(ctx, e.informers[0], n, tidings.HandlerOptions{})
}

func addTidingsHandlers[T tidings.Object](ctx context.Context, informer *tidings.SharedInformer[T], n int, how tidings.HandlerOptions) error {
	for range n {
		changes := 0
		reg, err := informer.AddHandler(tidings.HandlerFuncs[T]{
			Add:    func(T, bool) { changes++ },
			Update: func(_, _ T) { changes++ },
			Delete: func(tidings.Tombstone[T]) { changes++ },
		}, how)
		if err != nil {
			return fmt.Errorf("add a handler to tidings: %w", err)
		}
		if err := reg.WaitForSync(ctx); err != nil {
			return fmt.Errorf("add a handler to tidings: %w", err)
		}
	}
	return nil
}

func (e *ours[T]) Get(namespace, name string) bool {
	obj, ok := e.informers[0].Lister().Namespace(namespace).Get(name)
	return ok && obj.GetName() == name
}

func (e *ours[T]) List() (found int) {
	for obj := range e.informers[0].Lister().All() {
		if obj.GetName() != "" {
			found++
		}
	}
	return found
}

func (e *ours[T]) Folded() (open, folded int, problem string) {
	m := e.informers[0].Status().Memory
	return m.Open, m.Folded, m.Problem
}

func (e *ours[T]) Len() int { return e.informers[0].Snapshot().Len() }

func (e *ours[T]) WaitForSync(ctx context.Context) error { return e.factory.WaitForSync(ctx) }

func (e *ours[T]) Loaded() (int, error) {
	file := e.informers[0].Status().Parts[0].File
	return file.Loaded, errors.Join(file.Discarded, file.Err)
}

func (e *ours[T]) Stop() error { return e.factory.Shutdown(context.Background()) }

type tidingsCache struct {
	informer *tidings.SharedInformer[*corev1.Pod]
	lister   tidings.Lister[*corev1.Pod]
}

func newTidingsCache(client Client, namespace string) (*tidingsCache, error) {
	src, err := source.FromClient[*corev1.Pod](client, source.Scope{})
	if err != nil {
		return nil, fmt.Errorf("start tidings: %w", err)
	}
	informer, err := tidings.NewInformer(src, tidings.InformerOptions[*corev1.Pod]{Name: "pods"})
	if err != nil {
		return nil, fmt.Errorf("start tidings: %w", err)
	}
	informer.AddIndex("namespace", byNamespace[*corev1.Pod])
	return &tidingsCache{informer: informer, lister: informer.Lister().Namespace(namespace)}, nil
}

func (t *tidingsCache) Start(ctx context.Context, update func()) error {
	reg, err := t.informer.AddHandler(tidings.HandlerFuncs[*corev1.Pod]{Update: func(_, _ *corev1.Pod) { update() }}, everyChange)
	if err != nil {
		return fmt.Errorf("start tidings: %w", err)
	}
	if err := t.informer.Start(ctx); err != nil {
		return fmt.Errorf("start tidings: %w", err)
	}
	return reg.WaitForSync(ctx)
}

func (t *tidingsCache) List() (found int) {
	for pod := range t.lister.All() {
		if named(pod) {
			found++
		}
	}
	return found
}

func (t *tidingsCache) AddHandlers(ctx context.Context, n int) error {
	return addTidingsHandlers(ctx, t.informer, n, everyChange)
}

func (t *tidingsCache) Stop() { _ = t.informer.Stop(context.Background()) } // Stop only fails when its context ends

type tidingsStore struct {
	writer *store.Writer[*corev1.Pod]
	byNode *store.Index[*corev1.Pod]
}

func newTidingsStore(pods []corev1.Pod) *tidingsStore {
	writer := store.NewWriter[*corev1.Pod](store.Options{})
	writer.AddIndex("namespace", byNamespace[*corev1.Pod])
	s := &tidingsStore{writer: writer, byNode: writer.AddIndex("node", podNode)}
	all := make([]*corev1.Pod, len(pods))
	for i := range pods {
		all[i] = &pods[i]
	}
	s.Write(all)
	return s
}

func (s *tidingsStore) Write(pods []*corev1.Pod) {
	txn := s.writer.Begin()
	for _, pod := range pods {
		txn.Set(object.KeyOf(pod), pod)
	}
	txn.Commit()
}

func (s *tidingsStore) Get(namespace, name string) (*corev1.Pod, bool) {
	return s.writer.Store().Snapshot().Get(object.Key{Namespace: namespace, Name: name})
}

func (s *tidingsStore) ListNamespace(namespace string) (found int) {
	for _, pod := range s.writer.Store().Snapshot().Namespace(namespace) {
		if named(pod) {
			found++
		}
	}
	return found
}

func (s *tidingsStore) List() (found int) {
	for _, pod := range s.writer.Store().Snapshot().All() {
		if named(pod) {
			found++
		}
	}
	return found
}

func (s *tidingsStore) ByNode(node string) (found int) {
	for pod := range s.byNode.All(node) {
		if named(pod) {
			found++
		}
	}
	return found
}

func newTidingsQueue(ctx context.Context) func(string) {
	queue := workqueue.New(workqueue.Options[string]{})
	return func(item string) {
		queue.Add(item)
		got, err := queue.Get(ctx)
		if err != nil {
			return // ctx has ended
		}
		queue.Done(got)
	}
}
