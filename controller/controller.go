package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/workqueue"
)

// Reconciler brings the world in line with what the object of the key asks for. It gets the key only, and reads the
// newest state from the caches: between the change and the call there may be any number of other changes, and
// the object may be gone. It may be called again at any time, so it must get by with work that is done already.
//
// It is called by several workers at once, but never for the same key. It must return soon after ctx has ended.
type Reconciler func(ctx context.Context, key object.Key) (Result, error)

// Result is what a reconcile that did not fail asks for.
type Result struct {
	// RequeueAfter is when to reconcile the key again even if nothing changes. Zero or less means never.
	RequeueAfter time.Duration
}

// Options configure a Controller. The zero value works.
type Options struct {
	// Workers is the number of keys that are reconciled at the same time. Zero means 1.
	Workers int
	// Timeout is how long a reconcile may take before its context ends. Zero means 5 minutes, less than zero
	// means no limit.
	Timeout time.Duration
	// SyncTimeout is how long Run waits for the caches before it fails. Zero means 2 minutes.
	SyncTimeout time.Duration
	// StopTimeout is how long Run waits for its workers and mappers when it is to end. Zero means 30 seconds. After
	// its lease is lost, a leader waits no longer than what is left of the lease.
	StopTimeout time.Duration
	// MaxGateWait is how long after its last write a key waits for the caches to see its writes. Then it is
	// reconciled anyway, which is logged and counted. Zero means 10 seconds, less than zero means no waiting.
	MaxGateWait time.Duration
	// RateLimiter decides when a key that failed is tried again. Nil means workqueue.DefaultRateLimiter.
	RateLimiter workqueue.RateLimiter[object.Key]
	// Logger receives what goes wrong. Nil means slog.Default().
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Workers = max(o.Workers, 1)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Minute)
	o.SyncTimeout = cmp.Or(o.SyncTimeout, 2*time.Minute)
	o.StopTimeout = cmp.Or(o.StopTimeout, 30*time.Second)
	o.MaxGateWait = cmp.Or(o.MaxGateWait, 10*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return o
}

// The errors that callers may want to tell apart.
var (
	// ErrStarted is what Run returns when it is called a second time, and what Watch, Use and Manager.Add return once
	// Run was called.
	ErrStarted = errors.New("already started: set it up before Run, and make a new one to run it again")
	// ErrStillRunning is what Run returns when a reconcile or a mapper has not returned in time after the context
	// ended. It goes on, so the process should exit.
	ErrStillRunning = errors.New("work is still running")
)

// Controller calls a Reconciler for the keys that its caches bring up. Set it up with Watch and Use, then call Run;
// all its methods are safe for use from several goroutines.
type Controller struct {
	name      string
	reconcile Reconciler
	options   Options
	log       *slog.Logger
	queue     *workqueue.Queue[object.Key]
	gate      *gate
	counters  counters
	// unmapped has room for one signal: a mapper has panicked, so there is something to try again.
	unmapped chan struct{}

	mu sync.Mutex
	// sources only grows, and not once frozen is set.
	sources         []source
	setupErrs       []error
	frozen, started bool
	// busy has the keys that are being reconciled, with the start of it.
	busy          map[object.Key]time.Time
	reconcileTime workqueue.Histogram
	// logged is when each of the few messages of logThrottled was last logged.
	logged map[string]time.Time
}

// New returns a controller that watches nothing yet. The name stands for it in logs, metrics and errors, and has to be
// its own among the controllers of a Manager.
func New(name string, reconcile Reconciler, o Options) *Controller {
	o = o.withDefaults()
	c := &Controller{
		name:      name,
		reconcile: reconcile,
		options:   o,
		log:       o.Logger.With("controller", name),
		unmapped:  make(chan struct{}, 1),
		busy:      make(map[object.Key]time.Time),
		logged:    make(map[string]time.Time),
	}
	if name == "" {
		c.setupErrs = append(c.setupErrs, errors.New("a controller needs a name"))
	}
	queue := workqueue.Options[object.Key]{
		Name: name,
		Flow: func(key object.Key) string { return key.Namespace },
	}
	if o.RateLimiter != nil {
		queue.RateLimiter = newGuardedLimiter(o.RateLimiter, c.limiterPanicked)
	}
	c.queue = workqueue.New(queue)
	c.gate = newGate(o.MaxGateWait, c.queue.PriorityOf, c.enqueue, c.logMiss)
	return c
}

// Name returns the controller's name.
func (c *Controller) Name() string { return c.name }

// Enqueue has the key reconciled, for reasons that no cache knows of. It never blocks. It may be called before
// Run; after Run has ended it does nothing.
func (c *Controller) Enqueue(key object.Key) {
	c.queue.Add(key)
}

func (c *Controller) enqueue(key object.Key, p workqueue.Priority) {
	c.queue.AddWith(key, workqueue.AddOptions{Priority: p})
}

// addSource adds a source that Watch or Use made. Of one that cannot work it remembers the error for Run.
func (c *Controller) addSource(s source, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frozen {
		return fmt.Errorf("controller %s: %w", c.name, ErrStarted)
	}
	if err != nil {
		err = fmt.Errorf("controller %s: %w", c.name, err)
		c.setupErrs = append(c.setupErrs, err)
		return err
	}
	c.sources = append(c.sources, s)
	return nil
}

func (c *Controller) sourceList() []source {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sources
}

// freeze makes Watch and Use fail from now on. It returns what they complained about before.
func (c *Controller) freeze() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = true
	return errors.Join(c.setupErrs...)
}

// Run waits for the caches, then reconciles until ctx ends, and waits for its workers. It returns nil after that.
//
// It returns an error at once when Watch or Use returned one, when a handler cannot be added, and when a cache is not
// in sync in time. In the end it returns ErrStillRunning, with the names of what runs, when a reconcile or a mapper
// does not return within StopTimeout: that one is left alone then.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.freeze(); err != nil {
		return err
	}
	c.mu.Lock()
	again := c.started
	c.started = true
	c.mu.Unlock()
	if again {
		return fmt.Errorf("controller %s: %w", c.name, ErrStarted)
	}
	if err := c.run(ctx); err != nil {
		return fmt.Errorf("controller %s: %w", c.name, err)
	}
	return nil
}

func (c *Controller) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	unsubscribe, err := c.subscribe()
	if err == nil {
		err = c.waitForSync(ctx)
	}
	if err == nil {
		c.log.Debug("caches are in sync, starting workers", "workers", c.options.Workers)
		running.Go(func() { c.gate.run(ctx) })
		c.keepRunning(ctx, &running, c.retryMappings)
		for range c.options.Workers {
			c.keepRunning(ctx, &running, c.work)
		}
		<-ctx.Done()
	}
	cancel()
	return errors.Join(err, c.stop(ctx, unsubscribe, &running))
}

// keepRunning runs fn in a goroutine. One that a user's function ended with runtime.Goexit is replaced.
func (c *Controller) keepRunning(ctx context.Context, running *sync.WaitGroup, fn func(ctx context.Context)) {
	running.Go(func() {
		returned := false
		defer func() {
			if !returned {
				c.keepRunning(ctx, running, fn)
			}
		}()
		fn(ctx)
		returned = true
	})
}

// subscribe adds the handlers. The function returned, which is there even with an error, removes them.
func (c *Controller) subscribe() (unsubscribe func(), err error) {
	var removes []func()
	unsubscribe = func() {
		var removing sync.WaitGroup
		for _, remove := range removes {
			removing.Go(remove)
		}
		removing.Wait()
	}
	for _, s := range c.sourceList() {
		remove, err := s.subscribe(c)
		if err != nil {
			return unsubscribe, err
		}
		removes = append(removes, remove)
	}
	return unsubscribe, nil
}

// waitForSync waits for all caches at the same time: the first that fails is enough to fail, and after SyncTimeout
// the error names each that is missing. It returns nil when ctx itself ended.
func (c *Controller) waitForSync(ctx context.Context) error {
	cause := fmt.Errorf("not in sync after %v", c.options.SyncTimeout)
	syncCtx, cancel := context.WithTimeoutCause(ctx, c.options.SyncTimeout, cause)
	defer cancel()
	sources := c.sourceList()
	errs := make([]error, len(sources))
	var waiting sync.WaitGroup
	for i, s := range sources {
		waiting.Go(func() {
			if err := s.waitForSync(syncCtx); err != nil && syncCtx.Err() != context.Canceled {
				errs[i] = err
				cancel()
			}
		})
	}
	waiting.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(errs...)
}

// stop shuts the queue down and waits for all that runs, but no longer than it may.
func (c *Controller) stop(ctx context.Context, unsubscribe func(), running *sync.WaitGroup) error {
	_ = c.queue.ShutDown(ctx) // ctx has ended, so this does not wait: running does
	start := time.Now()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		unsubscribe()
		running.Wait()
	}()
	if waitWhileAllowed(stopped, start.Add(c.options.StopTimeout), turnOf(ctx)) {
		return nil
	}
	return fmt.Errorf("%w %v after its context has ended: %s", ErrStillRunning,
		time.Since(start).Round(time.Millisecond), strings.Join(c.runningNames(), ", "))
}

// runningNames says what has not returned, for an error.
func (c *Controller) runningNames() []string {
	var names []string
	for _, key := range c.busyKeys() {
		names = append(names, "reconcile of "+key.String())
	}
	for _, s := range c.sourceList() {
		if call := s.runningCall(); call != "" {
			names = append(names, call)
		}
	}
	const most = 10
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("and %d more", len(names)-most))
	}
	return names
}
