package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
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
	// StopTimeout is how long Run waits for its workers when it is to end. Zero means 30 seconds.
	StopTimeout time.Duration
	// MaxGateWait is how long after its last write a key waits for the caches to see its writes. Then it is
	// reconciled anyway, which is logged and counted. Zero means 10 seconds, less than zero means no waiting.
	MaxGateWait time.Duration
	// RateLimiter decides when a key that failed is tried again. Nil means workqueue.DefaultRateLimiter.
	RateLimiter workqueue.RateLimiter[object.Key]
	// Metrics receives durations. Nil means none.
	Metrics Metrics
	// Log receives what goes wrong. Nil means nothing is logged.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Workers = max(o.Workers, 1)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Minute)
	o.SyncTimeout = cmp.Or(o.SyncTimeout, 2*time.Minute)
	o.StopTimeout = cmp.Or(o.StopTimeout, 30*time.Second)
	o.MaxGateWait = cmp.Or(o.MaxGateWait, 10*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// ErrStarted is what Run returns when it is called a second time.
var ErrStarted = errors.New("a controller runs once; make a new one to run it again")

// Controller calls a Reconciler for the keys that its caches bring up. Set it up with Watch and Use, then call Run;
// all its other methods are safe for use from several goroutines.
type Controller struct {
	name      string
	reconcile Reconciler
	options   Options
	log       *slog.Logger
	queue     *workqueue.Queue[object.Key]
	gate      *gate
	sources   []source // fixed once Run was called
	started   atomic.Bool
	counters  counters

	mu sync.Mutex
	// busy has the keys that are being reconciled, with the start of it.
	busy map[object.Key]time.Time
}

// New returns a controller that watches nothing yet. The name stands for it in logs, metrics and errors.
func New(name string, reconcile Reconciler, o Options) *Controller {
	o = o.withDefaults()
	c := &Controller{
		name:      name,
		reconcile: reconcile,
		options:   o,
		log:       o.Log.With("controller", name),
		busy:      make(map[object.Key]time.Time),
	}
	queue := workqueue.Options[object.Key]{
		Name:        name,
		RateLimiter: o.RateLimiter,
		Flow:        func(key object.Key) string { return key.Namespace },
	}
	if o.Metrics != nil { // a nil Metrics must not become a workqueue.Metrics that is not nil
		queue.Metrics = o.Metrics
	}
	c.queue = workqueue.New(queue)
	c.gate = newGate(o.MaxGateWait, c.Enqueue, c.logMiss)
	return c
}

// Name returns the controller's name.
func (c *Controller) Name() string { return c.name }

// Enqueue has the key reconciled, for reasons that no cache knows of. It never blocks. It may be called before
// Run; after Run has ended it does nothing.
func (c *Controller) Enqueue(key object.Key) {
	c.queue.Add(key)
}

// Run waits for the caches, then reconciles until ctx ends, and waits for its workers. It returns nil after that.
// It returns an error at once when a handler cannot be added, or when a cache is not in sync in time, and in the
// end when a worker does not stop: that one is left alone then.
func (c *Controller) Run(ctx context.Context) error {
	if c.started.Swap(true) {
		return fmt.Errorf("controller %s: %w", c.name, ErrStarted)
	}
	err := c.run(ctx)
	if err != nil {
		return fmt.Errorf("controller %s: %w", c.name, err)
	}
	return nil
}

func (c *Controller) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	unsubscribe, err := c.subscribe()
	if err == nil {
		err = c.waitForSync(ctx)
	}
	var workers sync.WaitGroup
	if err == nil {
		c.log.Debug("caches are in sync, starting workers", "workers", c.options.Workers)
		workers.Go(func() { c.gate.run(ctx) })
		for range c.options.Workers {
			workers.Go(func() { c.work(ctx) })
		}
		<-ctx.Done()
	}
	unsubscribe()
	if stopErr := c.shutDownQueue(ctx); stopErr != nil {
		return errors.Join(err, stopErr)
	}
	workers.Wait()
	return err
}

// subscribe adds the handlers. The function returned, which is there even with an error, removes them.
func (c *Controller) subscribe() (unsubscribe func(), err error) {
	var removes []func()
	unsubscribe = func() {
		for _, remove := range removes {
			remove()
		}
	}
	for _, s := range c.sources {
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
	errs := make([]error, len(c.sources))
	var waiting sync.WaitGroup
	for i, s := range c.sources {
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

// shutDownQueue ends the queue and waits until no key is in work.
func (c *Controller) shutDownQueue(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.options.StopTimeout)
	defer cancel()
	if err := c.queue.ShutDown(ctx); err != nil {
		return fmt.Errorf("reconciles do not stop, %v after their context has ended: %v", c.options.StopTimeout, c.busyKeys())
	}
	return nil
}
