package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo"
)

// newReflector returns the Run method of a reflector.
type newReflector func(lw cache.ListerWatcher, example runtime.Object, store cache.Store) (run func(context.Context))

func clientGoReflector(lw cache.ListerWatcher, example runtime.Object, store cache.Store) func(context.Context) {
	return cache.NewReflector(lw, example, store, 0).RunWithContext
}

func throughReflector(lw cache.ListerWatcher, example runtime.Object, store cache.Store) func(context.Context) {
	return clientgo.NewReflector(lw, example, store, 0).RunWithContext
}

// bareReflector is a reflector that fills a store of the program's own.
type bareReflector struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func startReflector(
	ctx context.Context, c Config, see func(version string), reflector newReflector, with constructors,
) (Engine, error) {
	lw, example, err := c.listWatch(with)
	if err != nil {
		return nil, fmt.Errorf("start a reflector: %w", err)
	}
	run := reflector(lw, example, &ownStore{cache.NewStore(cache.MetaNamespaceKeyFunc), see})
	e := &bareReflector{}
	ctx, e.cancel = context.WithCancel(ctx)
	e.running.Go(func() { run(ctx) })
	return e, nil
}

// AddHandlers fails: a reflector has no handlers.
func (e *bareReflector) AddHandlers(context.Context, int) error {
	return errors.New("a reflector has no handlers")
}

// Stop stops the reflector.
func (e *bareReflector) Stop() error {
	e.cancel()
	e.running.Wait()
	return nil
}

// ownStore is a store as programs have them, which looks at what it gets and holds it.
type ownStore struct {
	cache.Store
	see func(version string)
}

func (s *ownStore) saw(obj any) {
	if m, err := meta.Accessor(obj); err == nil {
		s.see(m.GetResourceVersion())
	}
}

// Add adds an object.
func (s *ownStore) Add(obj any) error {
	s.saw(obj)
	return s.Store.Add(obj)
}

// Update updates an object.
func (s *ownStore) Update(obj any) error {
	s.saw(obj)
	return s.Store.Update(obj)
}

// Delete deletes an object.
func (s *ownStore) Delete(obj any) error {
	s.saw(obj)
	return s.Store.Delete(obj)
}

// Replace replaces all objects.
func (s *ownStore) Replace(all []any, version string) error {
	err := s.Store.Replace(all, version)
	for _, obj := range all {
		s.saw(obj)
	}
	return err
}
