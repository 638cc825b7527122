package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/workqueue"
)

// Reconciler brings the actual state in line with the desired state of the object with this key. It reads the
// newest state from the caches: there may have been any number of other changes since the one that triggered it, and
// the object may be gone. It may be called again at any time, so it must be idempotent.
//
// It is called by several workers concurrently, but never for the same key. It must return soon after ctx has ended.
// An error that says just that client-go's own rate limit (rest.Config's QPS) left no time for a request is no
// failure: the key is tried again a second later.
type Reconciler func(ctx context.Context, key object.Key) (Result, error)

// Result is the result of a successful reconcile.
type Result struct {
	// RequeueAfter is the time after which to reconcile the key again even if nothing changes. Zero or less means
	// never.
	RequeueAfter time.Duration
}

// Options configures a Controller. The zero value is ready to use.
type Options struct {
	// Workers is the number of keys that are reconciled concurrently. Zero means 1.
	Workers int
	// Timeout is how long a reconcile may take before its context ends. Zero means 5 minutes; a negative value
	// means no limit.
	Timeout time.Duration
	// SyncTimeout is how long Run waits for the caches to sync before it fails. Zero means 2 minutes.
	SyncTimeout time.Duration
	// StopTimeout is how long Run waits for its workers and mappers to return after its context has ended. Zero
	// means 30 seconds. A leader that has lost its lease waits no longer than the remaining time of the lease.
	StopTimeout time.Duration
	// MaxGateWait is how long after its last write a key waits for the caches to see its writes. After that it is
	// reconciled nevertheless, which is logged and counted. Zero means 10 seconds; a negative value means no waiting.
	MaxGateWait time.Duration
	// RateLimiter decides when a failed key is retried. Nil means workqueue.DefaultRateLimiter.
	RateLimiter workqueue.RateLimiter[object.Key]
	// ShardBy returns what a key is sharded by, if replicas share the keys (see Manager): keys with the same text are
	// reconciled by the same replica. Nil means the namespace, or the name of a key that has none. It must always return
	// the same for a key, in every replica, so it cannot depend on the object. If it panics, the namespace counts.
	ShardBy func(key object.Key) string
	// Logger receives errors and warnings. Nil means slog.Default().
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Workers = max(o.Workers, 1)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Minute)
	o.SyncTimeout = cmp.Or(o.SyncTimeout, 2*time.Minute)
	o.StopTimeout = cmp.Or(o.StopTimeout, 30*time.Second)
	o.MaxGateWait = cmp.Or(o.MaxGateWait, defaultGateWait)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return o
}

// Errors that callers may want to distinguish.
var (
	// ErrStarted is returned by Run if it is called a second time, and by Watch, Use and Manager.Add after
	// Run was called.
	ErrStarted = errors.New("already started: set it up before Run, and make a new one to run it again")
	// ErrStillRunning is returned by Run if a reconcile or a mapper has not returned in time after the context
	// ended. It is still running, so the process should exit.
	ErrStillRunning = errors.New("work is still running")
)

// Controller calls a Reconciler for keys of objects that change in its caches. Set it up with Watch and Use, then
// call Run. Its methods are safe for concurrent use.
type Controller struct {
	name      string
	reconcile Reconciler
	options   Options
	log       *slog.Logger
	queue     *workqueue.Queue[object.Key]
	gate      *gate[object.Key]
	counters  counters
	// sharding is set before Run if replicas share the keys.
	sharding atomic.Pointer[sharding]
	// unmapped has a buffer for one signal: a mapper has panicked, so there is something to retry.
	unmapped chan struct{}

	mu sync.Mutex
	// sources only grows, and not once frozen is set.
	sources         []source
	viewList        []cacheView // the same
	setupErrs       []error
	frozen, started bool
	// busy maps the keys that are being reconciled to the start times.
	busy          map[object.Key]time.Time
	reconcileTime workqueue.Histogram
	// logged maps each message of logThrottled to when it was last logged.
	logged map[string]time.Time
}

// New returns a controller that watches nothing yet. The name identifies it in logs, metrics and errors, and must
// be unique among the controllers of a Manager.
func New(name string, reconcile Reconciler, o Options) *Controller {
	o = o.withDefaults()
	c := &Controller{
		name:      name,
		reconcile: reconcile,
		options:   o,
		log:       newLogger(o.Logger).With("controller", name),
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
		queue.RateLimiter = newRecoveringLimiter(o.RateLimiter, c.limiterPanicked)
	}
	c.queue = workqueue.New(queue)
	c.gate = newGate(o.MaxGateWait, c.queue.PriorityOf, c.enqueue, c.logMissedWrite)
	c.gate.views = c.views
	return c
}

// Name returns the controller's name.
func (c *Controller) Name() string { return c.name }

// Enqueue triggers a reconcile of the key for reasons that no cache shows. It never blocks. It may be called before
// Run; after Run has ended it does nothing. If replicas share the keys, it has to be called in the one that owns this key:
// others reconcile it only if they become the owner within five minutes.
func (c *Controller) Enqueue(key object.Key) {
	c.enqueue(key, workqueue.Normal)
}

func (c *Controller) enqueue(key object.Key, p workqueue.Priority) {
	if s := c.sharding.Load(); s != nil && !s.wants(key, p) {
		return
	}
	c.queue.AddWith(key, workqueue.AddOptions{Priority: p})
}

// addSource adds a source for Watch or Use. If they failed, it records the error for Run.
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
	c.viewList = append(c.viewList, s)
	return nil
}

// views returns the sources' caches.
func (c *Controller) views() []cacheView {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.viewList
}

func (c *Controller) sourceList() []source {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sources
}

// freeze makes Watch and Use fail from now on. It returns their earlier errors.
func (c *Controller) freeze() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = true
	return errors.Join(c.setupErrs...)
}

// Run waits for the caches to sync, reconciles until ctx ends, waits for its workers, and returns nil.
//
// It returns an error early if Watch or Use returned one, if a handler cannot be added, or if a cache does not
// sync in time. At the end it returns ErrStillRunning, with the names of what is running, if a reconcile or a mapper
// does not return within StopTimeout; its goroutine is abandoned.
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
		if s := c.sharding.Load(); s != nil {
			c.keepRunning(ctx, &running, s.follow)
		}
		for range c.options.Workers {
			c.keepRunning(ctx, &running, c.work)
		}
		<-ctx.Done()
	}
	cancel()
	return errors.Join(err, c.stop(ctx, unsubscribe, &running))
}

// keepRunning runs fn in a goroutine, and replaces it if a user's function ends it with runtime.Goexit.
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

// subscribe adds the handlers. unsubscribe, which is not nil even on error, removes them.
func (c *Controller) subscribe() (unsubscribe func(), err error) {
	var removes []func()
	var initial enqueueFunc
	if s := c.sharding.Load(); s != nil {
		initial = func(object.Key, workqueue.Priority) {} // nothing is owned yet
		removes = append(removes, s.replays.removeAll)
	}
	unsubscribe = func() {
		var removing sync.WaitGroup
		for _, remove := range removes {
			removing.Go(remove)
		}
		removing.Wait()
	}
	for _, s := range c.sourceList() {
		remove, err := s.subscribe(c, initial)
		if err != nil {
			return unsubscribe, err
		}
		removes = append(removes, remove)
	}
	return unsubscribe, nil
}

// waitForSync waits for all caches concurrently. It fails as soon as one of them fails, and after SyncTimeout
// the error names all that have not synced. It returns nil if ctx itself has ended.
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

// stop shuts the queue down and waits for all goroutines, but no longer than permitted.
func (c *Controller) stop(ctx context.Context, unsubscribe func(), running *sync.WaitGroup) error {
	_ = c.queue.ShutDown(ctx) // does not wait, because ctx has ended
	start := time.Now()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		unsubscribe()
		running.Wait()
	}()
	if waitUntilDeadline(stopped, start.Add(c.options.StopTimeout), leaseDeadlineOf(ctx)) {
		return nil
	}
	return fmt.Errorf("%w %v after its context has ended: %s", ErrStillRunning,
		time.Since(start).Round(time.Millisecond), strings.Join(c.runningNames(), ", "))
}

// runningNames names the calls that have not returned, for an error.
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
