package clientgo

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// starter is what all factories have in common: a map of informers and their lifecycle.
type starter[K comparable] struct {
	mu           sync.Mutex
	informers    map[K]cache.SharedIndexInformer // created on first use
	started      map[K]bool
	shuttingDown bool
	wg           sync.WaitGroup // the informers' Run
}

// informer returns the informer for a key, and calls make if there is none yet. The lock is held.
func (s *starter[K]) informer(key K, make func() cache.SharedIndexInformer) cache.SharedIndexInformer {
	if inf := s.informers[key]; inf != nil {
		return inf
	}
	if s.informers == nil {
		s.informers, s.started = map[K]cache.SharedIndexInformer{}, map[K]bool{}
	}
	inf := make()
	s.informers[key] = inf
	return inf
}

// Start starts the informers that have not been started. It does not wait.
func (s *starter[K]) Start(stopCh <-chan struct{}) {
	s.StartWithContext(wait.ContextForChannel(stopCh))
}

// StartWithContext starts the informers that have not been started. It does not wait.
func (s *starter[K]) StartWithContext(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shuttingDown {
		return
	}
	for key, inf := range s.informers {
		if !s.started[key] {
			s.started[key] = true
			s.wg.Go(func() { inf.RunWithContext(ctx) })
		}
	}
}

// Shutdown waits for all informers to stop; the caller has to end their contexts. Nothing can be started afterwards.
func (s *starter[K]) Shutdown() {
	s.mu.Lock()
	s.shuttingDown = true
	s.mu.Unlock()
	s.wg.Wait()
}

// waitForSync waits until every started informer has its initial list, or until ctx ends. It
// returns which informers have, and an error that says what keeps the others from syncing.
func (s *starter[K]) waitForSync(ctx context.Context) (map[K]bool, error) {
	started := s.startedInformers()
	var checkers []cache.DoneChecker
	for _, inf := range started {
		checkers = append(checkers, inf.HasSyncedChecker())
	}
	cache.WaitFor(ctx, "", checkers...)
	synced := map[K]bool{}
	var errs []error
	for key, inf := range started {
		synced[key] = inf.HasSynced()
		if !synced[key] {
			errs = append(errs, notSynced(ctx, inf))
		}
	}
	return synced, errors.Join(errs...)
}

func (s *starter[K]) startedInformers() map[K]cache.SharedIndexInformer {
	s.mu.Lock()
	defer s.mu.Unlock()
	started := map[K]cache.SharedIndexInformer{}
	for key, inf := range s.informers {
		if s.started[key] {
			started[key] = inf
		}
	}
	return started
}

// notSynced says why an informer has not synced when ctx ends.
func notSynced(ctx context.Context, inf cache.SharedIndexInformer) error {
	if ours, ok := oursOf(inf); ok {
		if problem := ours.watchError(); problem != nil {
			return fmt.Errorf("%w: %w", problem, context.Cause(ctx))
		}
	}
	return context.Cause(ctx)
}
