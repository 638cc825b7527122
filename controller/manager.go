package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Elector decides which of several processes acts. LeaseElector is one.
type Elector interface {
	// Lead waits until it is this process's turn, and calls run with a context that ends, with a cause, when the
	// turn does or ctx ends. It returns after run has, with run's error and the reason why the turn was lost.
	// When ctx ends before the turn comes it returns nil without having called run.
	Lead(ctx context.Context, run func(ctx context.Context) error) error
}

// Manager runs controllers together. Set it up with Add, then call Run; all its other methods are safe for use from
// several goroutines.
type Manager struct {
	elector     Elector
	controllers []*Controller
}

// NewManager returns a manager without controllers. With an elector they run only while it is this process's turn;
// nil means that they always do.
func NewManager(elector Elector) *Manager {
	return &Manager{elector: elector}
}

// Add adds controllers. Call it before Run.
func (m *Manager) Add(controllers ...*Controller) {
	m.controllers = append(m.controllers, controllers...)
}

// Run runs all controllers until ctx ends, and waits for them. When one of them fails it ends the others, and
// returns all errors. When an elector takes the turn away it ends them too, and returns why: a process whose
// turn is over does best to exit, so that it starts afresh.
func (m *Manager) Run(ctx context.Context) error {
	if m.elector == nil {
		return m.runAll(ctx)
	}
	return m.elector.Lead(ctx, m.runAll)
}

func (m *Manager) runAll(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	errs := make([]error, len(m.controllers))
	var running sync.WaitGroup
	for i, c := range m.controllers {
		running.Go(func() {
			if errs[i] = c.Run(ctx); errs[i] != nil {
				cancel(fmt.Errorf("stopping with %w", errs[i]))
			}
		})
	}
	<-ctx.Done()
	running.Wait()
	return errors.Join(errs...)
}

// Stats returns the figures of all controllers, in the order in which they were added.
func (m *Manager) Stats() []Stats {
	stats := make([]Stats, len(m.controllers))
	for i, c := range m.controllers {
		stats[i] = c.Stats()
	}
	return stats
}
