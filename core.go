package tidings

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/deltafifo"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/store"
)

// phase is where an informer is in its life. It only grows.
type phase uint8

const (
	notStarted phase = iota
	running
	stopping // and stopped, once done is closed
)

// core is an informer as its users share it: the parts that list and watch, the queue, the store, and the
// subscriptions. It is made once and started once.
//
//	part ─┐
//	part ─┼─► queue ──apply──► store ──push──► subscriptions
//	part ─┘
//
// There is no goroutine between a part and the store: the part that has brought something applies it, and whatever else
// is queued, while it holds the apply lock.
type core[T Object] struct {
	name       string
	resource   schema.GroupVersionResource // zero where the source is the user's
	scope      string                      // in words, for status
	namespaces []string
	selector   labels.Selector // nil when there is none
	newSource  func(namespace string, noSharing bool) (source.ListerWatcher[T], error)
	opts       Options
	logger     *slog.Logger
	guard      *guard

	queue  *deltafifo.Queue[T]
	writer *store.Writer[T] // guarded by apply
	store  *store.Store[T]

	turn  sync.Mutex // held by the part that applies next, while it waits for Block handlers to have room
	apply sync.Mutex // held while a batch goes from the queue through the store to all subscriptions

	synced chan struct{} // closed under apply when every part has had its first list
	life   context.Context
	end    context.CancelCauseFunc // ends life; the cause says why
	done   chan struct{}           // closed when every goroutine has ended
	wg     sync.WaitGroup

	mu        sync.Mutex // guards what follows; never held while calling out
	phase     phase
	unlink    func() bool // lets go of the context that the informer was started with
	transform func(T) (T, error)
	parts     []*part[T]         // set once, by start
	subs      []*subscription[T] // replaced, never changed in place; replaced only under apply
	news      chan struct{}      // closed and replaced when a part's state has changed

	indexPanics, transformErrors atomic.Uint64
}

// coreConfig is what a core is made of.
type coreConfig[T Object] struct {
	name       string
	resource   schema.GroupVersionResource
	scope      string
	namespaces []string
	selector   labels.Selector
	newSource  func(namespace string, noSharing bool) (source.ListerWatcher[T], error)
	transform  func(T) (T, error)
	opts       Options
}

func newCore[T Object](cfg coreConfig[T]) *core[T] {
	opts := cfg.opts.withDefaults()
	if len(cfg.namespaces) == 0 {
		cfg.namespaces = []string{All}
	}
	c := &core[T]{
		name: cfg.name, resource: cfg.resource, scope: cfg.scope, namespaces: cfg.namespaces, selector: cfg.selector, newSource: cfg.newSource, transform: cfg.transform,
		opts: opts, logger: opts.Logger.With("resource", cfg.name),
		queue:  deltafifo.New[T](deltafifo.Options{}),
		synced: make(chan struct{}), done: make(chan struct{}), news: make(chan struct{}),
	}
	c.guard = newGuard(c.name, c.logger, opts.OnMutation, opts.NoMutationGuard)
	c.writer = store.NewWriter[T](store.Options{OnIndexPanic: c.indexPanicked})
	c.store = c.writer.Store()
	c.life, c.end = context.WithCancelCause(context.Background())
	return c
}

func (c *core[T]) indexPanicked(index string, key object.Key, reason any) {
	c.indexPanics.Add(1)
	c.logger.Error("index function panicked; the object is stored but not in this index",
		"index", index, "key", key.String(), "panic", fmt.Sprint(reason))
}

// start makes the parts and runs them until ctx ends or stop is called. Starting again does nothing.
func (c *core[T]) start(ctx context.Context) error {
	c.apply.Lock()
	defer c.apply.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.phase {
	case running:
		return nil
	case stopping:
		return fmt.Errorf("%s: %w", c.name, ErrStopped)
	}
	parts, err := c.newParts()
	if err != nil {
		return err
	}
	c.parts, c.phase = parts, running
	c.unlink = context.AfterFunc(ctx, func() { c.halt(context.Cause(ctx)) })
	for _, s := range c.subs {
		c.wg.Go(func() { s.run(c.life) })
	}
	for _, p := range c.parts {
		c.wg.Go(func() { p.run(c.life) })
	}
	return nil
}

// halt ends every goroutine, for the given reason, without waiting for them.
func (c *core[T]) halt(cause error) {
	c.mu.Lock()
	before, unlink, subs := c.phase, c.unlink, c.subs
	c.phase = stopping
	c.mu.Unlock()
	switch before {
	case stopping:
		return
	case notStarted:
		for _, s := range subs {
			s.end() // it never ran
		}
	case running:
		unlink()
	}
	c.end(errors.Join(ErrStopped, cause))
	go func() { // ends with the goroutines it waits for
		c.wg.Wait()
		c.guard.end()
		close(c.done)
	}()
}

// stop ends every goroutine and waits for them.
func (c *core[T]) stop(ctx context.Context) error {
	c.halt(nil)
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return &StopError{Resource: c.name, Handlers: c.runningHandlers(), Err: context.Cause(ctx)}
	}
}

func (c *core[T]) runningHandlers() []string {
	c.mu.Lock()
	subs := c.subs
	c.mu.Unlock()
	var names []string
	for _, s := range subs {
		select {
		case <-s.done:
		default:
			names = append(names, s.opts.Name)
		}
	}
	return names
}

// subscribe adds a subscription. If the informer has synced, it is told of the present objects first, while the
// others go on.
func (c *core[T]) subscribe(s *subscription[T]) error {
	c.apply.Lock()
	defer c.apply.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == stopping {
		return fmt.Errorf("%s: add handler %q: %w", c.name, s.opts.Name, ErrStopped)
	}
	c.subs = append(slices.Clip(c.subs), s)
	if c.hasSynced() {
		s.begin(c.store.Snapshot(), time.Now())
	}
	if c.phase == running {
		c.wg.Go(func() { s.run(c.life) })
	}
	return nil
}

// unsubscribe takes s off the list and waits for its running call.
func (c *core[T]) unsubscribe(ctx context.Context, s *subscription[T]) error {
	s.stop.Store(true)
	signal(s.wake)
	c.apply.Lock()
	c.mu.Lock()
	if i := slices.Index(c.subs, s); i >= 0 {
		c.subs = slices.Delete(slices.Clone(c.subs), i, i+1)
		if c.phase == notStarted {
			s.end() // it never ran
		}
	}
	c.mu.Unlock()
	c.apply.Unlock()
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return &StopError{Resource: c.name, Handlers: []string{s.opts.Name}, Err: context.Cause(ctx)}
	}
}

func (c *core[T]) hasSynced() bool {
	select {
	case <-c.synced:
		return true
	default:
		return false
	}
}

// tell wakes everybody who waits for a part's state to change.
func (c *core[T]) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.news)
	c.news = make(chan struct{})
}
