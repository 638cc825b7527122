package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/internal/budget"
	"github.com/tidings/tidings/internal/memory"
	"github.com/tidings/tidings/internal/saved"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/internal/usercode"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// Config describes an informer. Name, Namespaces, NewSource and Options.Logger must be set.
type Config[T object.Object] struct {
	Options
	// Name is the collection's name in messages: the resource, and what distinguishes it from other
	// informers of that resource.
	Name     string
	Resource schema.GroupVersionResource // zero if the source is the user's
	// Type is the Go type of the objects if T is an interface; if it is nil then, objects are neither folded nor saved.
	Type reflect.Type
	// Namespaces are listed and watched separately; "" is all of them.
	Namespaces []string
	NewSource  func(namespace string) (source.ListerWatcher[T], error)
	Transform  func(T) (T, error)
	// Identity identifies the collection in Options.Files, in addition to the Go type, the
	// namespace, the cluster and the transform.
	Identity map[string]string
	// Memory is the budget to keep to; nil for none.
	Memory *budget.Budget
	// Clock serves the rule of what is open; nil means that nothing folds without a budget.
	Clock *memory.Clock
	// OnEnd, if not nil, is called once when the informer has ended, before Done is closed.
	OnEnd func()
}

// Options are shared by all informers of a factory.
type Options struct {
	Logger          *slog.Logger
	OnError         func(error)    // may be nil
	OnMutation      func(Mutation) // may be nil
	NoMutationGuard bool
	NoWatchList     bool
	FirstFromCache  bool
	Backoff         reflector.Backoff
	PageSize        int64
	// Seed makes randomness repeatable; 0 picks random seeds.
	Seed uint64
	// Audit is how often each part compares the store with the server; 0 means never.
	Audit time.Duration
	// Peers are the reflectors of the same server; may be nil.
	Peers *reflector.Peers
	// Files configures how the objects are saved; nil means not at all.
	Files *saved.Options
}

// phase is the state of an informer's lifecycle. It only grows.
type phase uint8

const (
	notStarted phase = iota
	running
	stopping // or stopped, once done is closed
)

// Informer keeps a store equal to a collection and notifies handlers of every change. It can be
// started once. Its methods may be called from any goroutine; see the package comment for the path
// of a change.
type Informer[T object.Object] struct {
	cfg     Config[T]
	log     *usercode.ThrottledLog
	guard   *mutationGuard
	reports *usercode.Reporter // nil if the user set no callbacks

	// apply is held while one transaction goes through the store to all queues. Nothing waits while
	// it is held. Release it with unlockApply.
	apply         sync.Mutex
	deferredCalls deferredCalls    // calls to make when apply is released
	writer        *store.Writer[T] // guarded by apply
	store         *store.Store[T]
	memory        *memory.Account[T] // nil without a budget
	newestRemoved string             // the newest version of the removed parts; guarded by apply
	removals      map[string]removal // recently removed parts, by namespace; guarded by apply

	synced       chan struct{} // closed under apply when, for the first time, every part has had its first list
	life         context.Context
	end          context.CancelCauseFunc // ends life, with a cause
	done         chan struct{}           // closed when every goroutine has ended
	wg           sync.WaitGroup
	closer       usercode.Caller // the goroutine that closes done
	versionWaits versionWaits
	files        *saved.Files[T] // set by Start; nil if nothing is saved

	mu        sync.Mutex // guards what follows; never held while calling out. Lock order: apply before mu.
	phase     phase
	values    context.Context // that Start was given, for its values
	unlink    func() bool     // detaches the informer from that context
	transform func(T) (T, error)
	parts     []*part[T]         // replaced, never changed in place; replaced only under apply
	running   []*part[T]         // those whose goroutine has not ended, including removed ones; replaced like parts, but not only under apply
	subs      []*Subscription[T] // likewise: the handlers that are notified
	alive     []*Subscription[T] // those whose goroutine has not ended, including removed ones; replaced like parts
	changed   chan struct{}      // closed and replaced when a part's state has changed
	made      uint64             // number of parts created so far

	indexPanics, transformErrors atomic.Uint64
	edited                       atomic.Bool // the store was edited by hand
}

// New returns an informer that is not started yet.
func New[T object.Object](cfg Config[T]) *Informer[T] {
	inf := &Informer[T]{
		cfg: cfg, log: usercode.NewThrottledLog(cfg.Logger.With("resource", cfg.Name)), transform: cfg.Transform,
		synced: make(chan struct{}), done: make(chan struct{}), changed: make(chan struct{}), values: context.Background(),
	}
	if cfg.OnError != nil || cfg.OnMutation != nil {
		inf.reports = usercode.NewReporter(inf.log)
	}
	inf.guard = inf.newGuard()
	options := store.Options{OnIndexPanic: inf.indexPanicked, OnStrayWrite: inf.indexOutdated, OnOpenError: inf.openFailed}
	if !cfg.NoMutationGuard {
		options.OnStrayPart = inf.onStrayPart
	}
	inf.guardOpened(&options)
	inf.writer = store.NewWriter[T](options)
	inf.store = inf.writer.Store()
	inf.useMemory(cfg.Memory, cfg.Clock)
	inf.life, inf.end = context.WithCancelCause(context.Background())
	inf.versionWaits.init(inf.life)
	return inf
}

// objectType returns the Go type of the objects.
func (inf *Informer[T]) objectType() reflect.Type { return cmp.Or(inf.cfg.Type, reflect.TypeFor[T]()) }

// Name returns the informer's name in messages.
func (inf *Informer[T]) Name() string { return inf.cfg.Name }

// Store returns the read side of the store.
func (inf *Informer[T]) Store() *store.Store[T] { return inf.store }

// Start creates the parts and runs them until ctx ends or the informer is stopped. The source gets
// ctx's values with each request. Starting again does nothing.
func (inf *Informer[T]) Start(ctx context.Context) error {
	inf.apply.Lock()
	defer inf.unlockApply()
	inf.mu.Lock()
	defer inf.mu.Unlock()
	switch inf.phase {
	case running:
		return nil
	case stopping:
		return fmt.Errorf("%s: %w", inf.cfg.Name, ErrStopped)
	}
	var err error
	if inf.files, err = inf.newFiles(); err != nil {
		return err
	}
	inf.values = ctx
	parts, err := inf.newParts(inf.cfg.Namespaces)
	if err != nil {
		return err
	}
	inf.phase = running
	inf.unlink = context.AfterFunc(ctx, func() { inf.Halt(context.Cause(ctx)) })
	if inf.reports != nil {
		go inf.reports.Run() // ended by Halt, after everything that reports
	}
	for _, s := range inf.subs {
		inf.wg.Go(s.run)
	}
	inf.changeParts(parts, func(*part[T]) bool { return false })
	if inf.files != nil {
		inf.wg.Go(func() { inf.files.Run(inf.life) })
	}
	return nil
}

// Halt ends every goroutine, for the given reason, without waiting for them. Further calls do nothing.
func (inf *Informer[T]) Halt(cause error) {
	inf.mu.Lock()
	before, unlink, subs := inf.phase, inf.unlink, inf.subs
	inf.phase = stopping
	inf.mu.Unlock()
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
	inf.end(errors.Join(ErrStopped, cause))
	go func() { // ends with the goroutines it waits for
		inf.wg.Wait()
		inf.closer.Enter() // the logger is the user's
		inf.guard.sampler.CheckAll()
		inf.memory.Close()
		if inf.reports != nil && before == running {
			inf.reports.End()
		}
		if inf.cfg.OnEnd != nil {
			inf.cfg.OnEnd()
		}
		inf.closer.Leave()
		close(inf.done)
	}()
}

// Stop ends every goroutine and waits for them until ctx ends. It may be called again, and then
// waits again. Called from user code that this or another informer runs, it waits neither for that
// call nor for other such calls that are themselves waiting.
func (inf *Informer[T]) Stop(ctx context.Context) error {
	inf.Halt(nil)
	if usercode.CurrentCaller() != nil {
		if all, err := usercode.Await(ctx, inf.endings()); err != nil || !all {
			return inf.stopError(err)
		}
	}
	_, err := usercode.Await(ctx, []usercode.Ending{{Done: inf.done, By: &inf.closer}})
	return inf.stopError(err)
}

// Done is closed when every goroutine of the informer has ended.
func (inf *Informer[T]) Done() <-chan struct{} { return inf.done }

// endings are the goroutines that run user code. The reporter's goroutine ends after all others, so
// it counts as ended once it has delivered all pending reports.
func (inf *Informer[T]) endings() []usercode.Ending {
	var ends []usercode.Ending
	for _, s := range inf.living() {
		ends = append(ends, usercode.Ending{Done: s.done, By: &s.caller})
	}
	for _, p := range inf.runningParts() {
		ends = append(ends, usercode.Ending{Done: p.done, By: &p.caller})
	}
	ends = append(ends, inf.memory.Endings()...)
	started := len(inf.currentParts()) > 0
	if started {
		ends = append(ends, inf.files.Endings()...)
	}
	if started && inf.reports != nil {
		ends = append(ends, inf.reports.Ending())
	}
	return ends
}

// stopError wraps err, the reason why a stop ended early; nil stays nil.
func (inf *Informer[T]) stopError(err error) error {
	if err == nil {
		return nil
	}
	var names []string
	for _, s := range inf.living() {
		names = append(names, s.opts.Name)
	}
	return &StopError{Resource: inf.cfg.Name, Handlers: names, Err: err}
}

func (inf *Informer[T]) subscriptions() []*Subscription[T] {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	return inf.subs
}

// wantsObjects reports whether any handler uses objects rather than just keys.
func (inf *Informer[T]) wantsObjects() bool {
	return slices.ContainsFunc(inf.subscriptions(), func(s *Subscription[T]) bool { return !s.opts.Keys })
}

func (inf *Informer[T]) living() []*Subscription[T] {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	return inf.alive
}

func (inf *Informer[T]) currentParts() []*part[T] {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	return inf.parts
}

func (inf *Informer[T]) runningParts() []*part[T] {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	return inf.running
}

// SetTransform sets the function that every object passes through before it is stored.
func (inf *Informer[T]) SetTransform(transform func(T) (T, error)) error {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.phase != notStarted {
		return fmt.Errorf("%s: set transform: %w", inf.cfg.Name, ErrStarted)
	}
	if inf.transform != nil {
		return fmt.Errorf("%s: set transform: the informer has one already; ask the factory for another scope to have your own", inf.cfg.Name)
	}
	inf.transform = transform
	return nil
}

// AddIndex adds an index, which is ready on return.
func (inf *Informer[T]) AddIndex(name string, fn func(T) []string) *store.Index[T] {
	defer inf.keepBudget()
	inf.apply.Lock()
	defer inf.unlockApply()
	return inf.writer.AddIndex(name, fn)
}

// RemoveIndexes removes indexes.
func (inf *Informer[T]) RemoveIndexes(indexes []*store.Index[T]) {
	defer inf.keepBudget()
	inf.apply.Lock()
	defer inf.unlockApply()
	for _, ix := range indexes {
		inf.writer.RemoveIndex(ix)
	}
}

// indexPanicked is called when an index function panicked. apply is held.
func (inf *Informer[T]) indexPanicked(index string, key object.Key, reason any) {
	inf.indexPanics.Add(1)
	inf.deferredCalls.add(func() {
		inf.log.Log(slog.LevelError, "index function panicked; the object is stored but not in this index",
			"index", index, "key", key.String(), "panic", fmt.Sprint(reason))
		inf.reportError(&PanicError{Resource: inf.cfg.Name, Function: fmt.Sprintf("index %q", index), Key: key, Value: reason})
	})
}

// indexOutdated is called when an indexed object was written to. apply is held.
func (inf *Informer[T]) indexOutdated(index string, key object.Key) {
	inf.foundMutation(Mutation{Resource: inf.cfg.Name, Key: key, Field: "index " + index})
}

// onStrayPart is called, on any goroutine, when an object was opened from parts that were written to.
func (inf *Informer[T]) onStrayPart(key object.Key) {
	inf.foundMutation(Mutation{Resource: inf.cfg.Name, Key: key})
}

// reportError passes an error to the user's OnError.
func (inf *Informer[T]) reportError(err error) {
	if inf.cfg.OnError != nil {
		inf.reports.Report(func() { inf.cfg.OnError(err) })
	}
}

func (inf *Informer[T]) reportMutation(m Mutation) {
	if inf.cfg.OnMutation != nil {
		inf.reports.Report(func() { inf.cfg.OnMutation(m) })
	}
}

// notify wakes everybody who waits for a part's state to change.
func (inf *Informer[T]) notify() {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	close(inf.changed)
	inf.changed = make(chan struct{})
}

// versionWaits counts those who wait for a version. While somebody does, Block handlers do not hold
// the informer back, since the handler itself may be the one that waits.
type versionWaits struct {
	life context.Context

	mu      sync.Mutex
	waiting int
	ctx     context.Context // canceled while somebody waits
	cancel  context.CancelFunc
}

func (w *versionWaits) init(life context.Context) {
	w.life = life
	w.ctx, w.cancel = context.WithCancel(life)
}

// begin records that somebody waits, until end is called.
func (w *versionWaits) begin() (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting++
	w.cancel()
	return w.end
}

func (w *versionWaits) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting--; w.waiting == 0 {
		w.ctx, w.cancel = context.WithCancel(w.life)
	}
}

// idleContext returns a context that is canceled when, or while, somebody waits.
func (w *versionWaits) idleContext() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ctx
}

// partSeed returns a different seed for each part.
func (inf *Informer[T]) partSeed() uint64 {
	inf.made++
	if inf.cfg.Seed == 0 {
		return 0
	}
	return inf.cfg.Seed + inf.made - 1
}
