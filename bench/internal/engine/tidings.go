package engine

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
)

type ours[T tidings.Object] struct {
	factory  *tidings.Factory
	informer *tidings.SharedInformer[T]
}

func startTidings[T tidings.Object](ctx context.Context, c Config, o *Observer, byNode func(T) []string) (Engine, error) {
	factory, err := tidings.NewFactory(&rest.Config{Host: c.Host}, tidings.Options{NoMutationGuard: c.NoGuard})
	if err != nil {
		return nil, fmt.Errorf("start tidings: %w", err)
	}
	informer, err := tidings.Informer[T](factory, tidings.Scope{Resource: pods})
	if err != nil {
		return nil, fmt.Errorf("start tidings: %w", err)
	}
	tidings.AddIndex(informer, "node", byNode)
	if _, err := informer.AddHandler(tidings.HandlerFuncs[T]{
		Add:    func(obj T, _ bool) { o.See(obj.GetResourceVersion()) },
		Update: func(_, obj T) { o.See(obj.GetResourceVersion()) },
		Delete: func(gone tidings.Tombstone[T]) { o.See(gone.Object.GetResourceVersion()) },
	}, tidings.Subscription{}); err != nil {
		return nil, fmt.Errorf("start tidings: %w", err)
	}
	if err := factory.Start(ctx); err != nil {
		return nil, fmt.Errorf("start tidings: %w", err)
	}
	return &ours[T]{factory: factory, informer: informer}, nil
}

func (e *ours[T]) AddHandlers(ctx context.Context, n int) error {
	for range n {
		changes := 0
		reg, err := e.informer.AddHandler(tidings.HandlerFuncs[T]{
			Add:    func(T, bool) { changes++ },
			Update: func(_, _ T) { changes++ },
			Delete: func(tidings.Tombstone[T]) { changes++ },
		}, tidings.Subscription{})
		if err != nil {
			return fmt.Errorf("add a handler to tidings: %w", err)
		}
		if err := reg.WaitForSync(ctx); err != nil {
			return fmt.Errorf("add a handler to tidings: %w", err)
		}
	}
	return nil
}

func (e *ours[T]) Stop() error { return e.factory.Shutdown(context.Background()) }
