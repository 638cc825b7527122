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
	//
	// The turn lasts until run has returned, however long after the end of ctx that is. If run's error is
	// ErrStillRunning, work goes on, and the turn must not be passed on before it may have ended.
	Lead(ctx context.Context, run func(ctx context.Context) error) error
}

// Manager runs controllers together. Set it up with Add, then call Run. All its methods are safe for use from several
// goroutines.
type Manager struct {
	elector Elector

	mu sync.Mutex
	// controllers have different names.
	controllers []*Controller
	setupErrs   []error
	started     bool
}

// NewManager returns a manager without controllers. With an elector they run only while it is this process's turn;
// nil means that they always do.
func NewManager(elector Elector) *Manager {
	return &Manager{elector: elector}
}

// Add adds controllers. It returns an error for one that is nil or has the name of one that was added before, which Run
// returns as well, and ErrStarted after Run.
func (m *Manager) Add(controllers ...*Controller) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.started {
		return fmt.Errorf("manager: %w", ErrStarted)
	}
	var errs []error
	for _, c := range controllers {
		if err := m.add(c); err != nil {
			errs = append(errs, err)
		}
	}
	m.setupErrs = append(m.setupErrs, errs...)
	return errors.Join(errs...)
}

func (m *Manager) add(c *Controller) error {
	if c == nil {
		return errors.New("manager: a controller is nil")
	}
	for _, other := range m.controllers {
		if other.name == c.name {
			return fmt.Errorf("manager: there are two controllers with the name %q", c.name)
		}
	}
	m.controllers = append(m.controllers, c)
	return nil
}

func (m *Manager) list() []*Controller {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.controllers
}

// Run runs all controllers until ctx ends, and waits for them. When one of them fails it ends the others, and
// returns all errors. It returns an error at once when Add, Watch or Use returned one.
//
// With an elector it first waits for the caches of all controllers, for their SyncTimeout: a process that could not do
// the work does not compete for it. When the elector takes the turn away Run ends the controllers, and returns why: a
// process whose turn is over does best to exit, so that it starts afresh. With ErrStillRunning it should exit at once.
func (m *Manager) Run(ctx context.Context) error {
	if err := m.start(); err != nil {
		return err
	}
	if m.elector == nil {
		return m.runAll(ctx)
	}
	err := m.each(ctx, func(ctx context.Context, c *Controller) error {
		if err := c.waitForSync(ctx); err != nil {
			return fmt.Errorf("controller %s: %w", c.name, err)
		}
		return nil
	})
	if err != nil || ctx.Err() != nil {
		return err
	}
	return m.elector.Lead(ctx, m.runAll)
}

// start notes that Run was called. From then on nothing can be added, to the controllers neither.
func (m *Manager) start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.started {
		return fmt.Errorf("manager: %w", ErrStarted)
	}
	m.started = true
	errs := m.setupErrs
	for _, c := range m.controllers {
		errs = append(errs, c.freeze())
	}
	return errors.Join(errs...)
}

func (m *Manager) runAll(ctx context.Context) error {
	err := m.each(ctx, func(ctx context.Context, c *Controller) error { return c.Run(ctx) })
	if err == nil {
		<-ctx.Done() // it has ended, unless there are no controllers
	}
	return err
}

// each calls do for all controllers at the same time. The first error ends the context of the others.
func (m *Manager) each(ctx context.Context, do func(ctx context.Context, c *Controller) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	controllers := m.list()
	errs := make([]error, len(controllers))
	var running sync.WaitGroup
	for i, c := range controllers {
		running.Go(func() {
			if errs[i] = do(ctx, c); errs[i] != nil {
				cancel(fmt.Errorf("stopping with %w", errs[i]))
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// Stats returns the figures of all controllers, in the order in which they were added.
func (m *Manager) Stats() []Stats {
	controllers := m.list()
	stats := make([]Stats, len(controllers))
	for i, c := range controllers {
		stats[i] = c.Stats()
	}
	return stats
}
