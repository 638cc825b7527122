package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tidings/tidings/shards"
)

// Elector elects one of several processes as the leader. LeaseElector implements it.
type Elector interface {
	// Lead waits until this process is elected, and calls run with a context that ends, with a
	// cause, when the leadership is lost or ctx ends. It returns after run has, with run's error
	// and, if the leadership was lost, the reason for that. If ctx ends before this process is
	// elected, it returns nil without calling run.
	//
	// The process remains leader until run has returned, however long after the end of ctx that is. If run's error is
	// ErrStillRunning, work is still running, so the leadership must not be released but has to expire.
	Lead(ctx context.Context, run func(ctx context.Context) error) error
}

// Manager runs controllers together. Set it up with Add, then call Run. Its methods are safe for concurrent use.
type Manager struct {
	elector Elector

	mu sync.Mutex
	// controllers have distinct names.
	controllers []*Controller
	setupErrs   []error
	started     bool
}

// NewManager returns a manager without controllers. With an elector, controllers run only while
// this process is the leader; nil means that they always run. With a *shards.Replica, they run in all replicas, and each
// key is reconciled by one of these.
func NewManager(elector Elector) *Manager {
	return &Manager{elector: elector}
}

// Add adds controllers. It returns an error for one that is nil or has the name of another one, which Run will
// return as well, and ErrStarted after Run.
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

// Run runs all controllers until ctx ends, and waits for them. If one of them fails, it stops the others and
// returns all errors. It returns an error immediately if Add, Watch or Use returned one.
//
// With an elector, it first waits for the caches of all controllers, up to their SyncTimeout: a
// process that could not do the work does not stand for election. If the leadership is lost, Run
// stops the controllers and returns the reason; the process should then exit, so that it starts
// afresh. On ErrStillRunning it should exit immediately.
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

// start records that Run was called. From then on nothing can be added, neither to the manager nor to its controllers.
func (m *Manager) start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.started {
		return fmt.Errorf("manager: %w", ErrStarted)
	}
	m.started = true
	errs := m.setupErrs
	m.share()
	for _, c := range m.controllers {
		errs = append(errs, c.freeze())
	}
	return errors.Join(errs...)
}

// share makes the controllers share their keys with other replicas, if the elector is for that.
func (m *Manager) share() {
	replica, ok := m.elector.(*shards.Replica)
	if !ok {
		return
	}
	var names []string
	for _, c := range m.controllers {
		names = append(names, c.name)
		c.sharding.Store(newSharding(c, replica))
	}
	slices.Sort(names)
	replica.For = cmp.Or(replica.For, strings.Join(names, ","))
}

func (m *Manager) runAll(ctx context.Context) error {
	err := m.each(ctx, func(ctx context.Context, c *Controller) error { return c.Run(ctx) })
	if err == nil {
		<-ctx.Done() // only waits if there are no controllers
	}
	return err
}

// each calls do for all controllers concurrently. The first error ends the context of the others.
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

// Stats returns the stats of all controllers, in the order in which they were added.
func (m *Manager) Stats() []Stats {
	controllers := m.list()
	stats := make([]Stats, len(controllers))
	for i, c := range controllers {
		stats[i] = c.Stats()
	}
	return stats
}
