package engine

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/deltafifo"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/internal/usercode"
	"github.com/tidings/tidings/object"
)

// HandlerOptions configure how a handler is notified.
type HandlerOptions struct {
	Name   string
	Queue  deltafifo.Options
	Resync time.Duration // 0 means never
	// Keys says that the handler uses only the key of a delta: nothing is opened for it.
	Keys bool
	// OnSynced, if not nil, is called on the handler's goroutine after the last object of the initial list.
	OnSynced func()
}

// Receiver is how a handler is called, always from its own goroutine.
type Receiver[T object.Object] struct {
	Deliver func(object.Delta[T])
	// Refilter is called for each object after the handler's filter has changed. The delta is a
	// Sync: the object has not changed. It is nil if the handler has no filter.
	Refilter func(object.Delta[T])
}

// Subscription is one handler with its queue and its goroutine.
type Subscription[T object.Object] struct {
	inf     *Informer[T]
	opts    HandlerOptions
	handler Receiver[T] // zero once the goroutine has ended, so that a removed handler is freed
	filters bool
	queue   *deltafifo.Queue[T]
	caller  usercode.Caller

	life   context.Context // within the informer's; the handler is not called after its end, except that a running call goes on
	cancel context.CancelFunc
	synced chan struct{} // closed when the initial list has been delivered
	done   chan struct{} // closed when the goroutine has ended
	marked bool          // the end of the initial list is in the queue; guarded by Informer.mu

	// batch is being delivered, and the handler was called for the first of its deltas. Only the goroutine uses them.
	batch deltafifo.Batch[T]
	first int
	// calling is what the handler was called for last. Only the goroutine uses it.
	calling call

	delivered atomic.Uint64
	panics    atomic.Uint64
}

// NewSubscription returns a handler that is to be added to the informer by Start. It may be removed before that.
func (inf *Informer[T]) NewSubscription(handler Receiver[T], opts HandlerOptions) *Subscription[T] {
	s := &Subscription[T]{
		inf: inf, opts: opts, handler: handler, filters: handler.Refilter != nil, queue: deltafifo.New[T](opts.Queue),
		synced: make(chan struct{}), done: make(chan struct{}),
	}
	s.life, s.cancel = context.WithCancel(inf.life)
	return s
}

// Start adds the handler to its informer, unless it was removed or the informer has been stopped.
// It is to be called once. The handler first gets the existing objects; other handlers continue
// meanwhile.
func (s *Subscription[T]) Start() error {
	s.inf.apply.Lock()
	defer s.inf.unlockApply()
	if !s.inf.subscribe(s) {
		s.end() // it never ran
		return fmt.Errorf("%s: add handler %q: %w", s.inf.cfg.Name, s.opts.Name, ErrStopped)
	}
	return nil
}

// subscribe implements Start. apply is held.
func (inf *Informer[T]) subscribe(s *Subscription[T]) bool {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.phase == stopping || s.life.Err() != nil {
		return false
	}
	inf.subs = append(slices.Clip(inf.subs), s)
	inf.alive = append(slices.Clip(inf.alive), s)
	if snap := inf.store.Snapshot(); snap.Len() > 0 {
		s.sync(snap, true)
	}
	if inf.phase == running {
		inf.checkSynced()
		inf.wg.Go(s.run)
	}
	return true
}

// Remove removes the handler and waits until ctx ends for its running call: after a nil error it is
// never called again. Called from the handler itself, or from one that is itself waiting, it does
// not wait for that. It may be called again, and then waits again.
func (s *Subscription[T]) Remove(ctx context.Context) error {
	s.cancel()
	s.queue.Close()
	if neverRan := s.inf.unsubscribe(s); neverRan {
		s.end()
	}
	if _, err := usercode.Await(ctx, []usercode.Ending{{Done: s.done, By: &s.caller}}); err != nil {
		return &StopError{Resource: s.inf.cfg.Name, Handlers: []string{s.opts.Name}, Err: err}
	}
	return nil
}

// unsubscribe removes s from the list, and reports whether it was there and its goroutine never ran.
func (inf *Informer[T]) unsubscribe(s *Subscription[T]) (neverRan bool) {
	inf.apply.Lock()
	defer inf.unlockApply()
	inf.mu.Lock()
	defer inf.mu.Unlock()
	i := slices.Index(inf.subs, s)
	if i < 0 {
		return false
	}
	inf.subs = slices.Delete(slices.Clone(inf.subs), i, i+1)
	return inf.phase == notStarted
}

// Synced is closed when the initial list has been delivered.
func (s *Subscription[T]) Synced() <-chan struct{} { return s.synced }

// Done is closed when the handler will not be called any more; a call may still be running.
func (s *Subscription[T]) Done() <-chan struct{} { return s.life.Done() }

// run is the body of the subscription's goroutine. If the handler ends that with runtime.Goexit, as
// testing.T.FailNow does, another one goes on with the next delta.
func (s *Subscription[T]) run() {
	returned := false
	defer func() {
		if returned {
			s.end()
			return
		}
		s.panicked(s.calling, nil)
		s.inf.wg.Go(s.run)
	}()
	s.caller.Enter()
	defer s.caller.Leave()
	if s.opts.Resync > 0 {
		defer s.resyncEvery(s.opts.Resync)()
	}
	var err error
	for err == nil {
		s.deliverBatch()
		s.batch, err = s.queue.Pop(s.life)
	}
	returned = true
}

// resyncEvery requests a resync periodically; stop ends that and waits.
func (s *Subscription[T]) resyncEvery(period time.Duration) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer s.caller.Join()() // it may make calls that others deferred: see afterApply
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.inf.resync(s)
			case <-end:
				return
			}
		}
	}()
	return func() { close(end); <-ended }
}

// resync sends s every object again, in order with the changes.
func (inf *Informer[T]) resync(s *Subscription[T]) {
	inf.apply.Lock()
	defer inf.unlockApply()
	if inf.everSynced() {
		s.sync(inf.store.Snapshot(), false)
	}
}

// Refilter makes the handler decide anew about every object, in order with the changes. It does not
// wait for that. It returns an error if the handler has no filter or has been removed.
func (s *Subscription[T]) Refilter() error {
	if !s.filters {
		return fmt.Errorf("%s: refilter handler %q: %w", s.inf.cfg.Name, s.opts.Name, errNoFilter)
	}
	s.inf.apply.Lock()
	defer s.inf.unlockApply()
	if s.life.Err() != nil {
		return fmt.Errorf("%s: refilter handler %q: %w", s.inf.cfg.Name, s.opts.Name, ErrStopped)
	}
	if snap := s.inf.store.Snapshot(); snap.Len() > 0 {
		s.queue.Refilter(snap)
	}
	return nil
}

// sync sends s all the objects, as an initial list or a resync.
func (s *Subscription[T]) sync(objects object.Collection[T], initial bool) {
	s.queue.Sync(s.looksAt(objects), initial)
}

// looksAt returns what the handler uses of the objects: with Keys only the keys, so that nothing is opened.
func (s *Subscription[T]) looksAt(objects object.Collection[T]) object.Collection[T] {
	if s.opts.Keys {
		return store.Keys(objects)
	}
	return objects
}

// end marks the goroutine as ended, and frees pending deltas and the handler.
func (s *Subscription[T]) end() {
	s.cancel()
	s.queue.Close()
	s.handler, s.opts.OnSynced, s.batch = Receiver[T]{}, nil, deltafifo.Batch[T]{}
	inf := s.inf
	inf.mu.Lock()
	inf.alive = slices.DeleteFunc(slices.Clone(inf.alive), func(other *Subscription[T]) bool { return other == s })
	inf.mu.Unlock()
	close(s.done)
}

// deliverBatch calls the handler for what is left of the batch, and drops the batch.
func (s *Subscription[T]) deliverBatch() {
	switch {
	case s.batch.Type == deltafifo.Synced:
		s.batch = deltafifo.Batch[T]{}
		s.finishSync()
	case s.batch.Objects != nil:
		s.deliverObjects()
	}
	for s.first < len(s.batch.Deltas) && s.life.Err() == nil { // not Batch.All: nearly all changes pass through here
		s.first++
		s.notify(s.batch.Deltas[s.first-1], s.handler.Deliver)
		s.queue.Done(1)
	}
	s.batch, s.first = deltafifo.Batch[T]{}, 0
}

// deliverObjects calls the handler for what is left of a batch of objects, such as the initial list.
func (s *Subscription[T]) deliverObjects() {
	deliver := s.handler.Deliver
	if s.batch.Type == deltafifo.Refilter {
		deliver = s.handler.Refilter
	}
	n := 0
	for d := range s.batch.All() {
		if s.life.Err() != nil {
			return
		}
		if n++; n <= s.first {
			continue
		}
		s.first++
		s.notify(d, deliver)
		s.queue.Done(1)
	}
}

// finishSync signals that the initial list has been delivered.
func (s *Subscription[T]) finishSync() {
	defer close(s.synced)
	s.calling = call{}
	defer s.recover()
	if s.opts.OnSynced != nil {
		s.opts.OnSynced()
	}
}

// notify passes one delta to the handler's function.
func (s *Subscription[T]) notify(d object.Delta[T], deliver func(object.Delta[T])) {
	s.calling = call{d.Type, d.Key}
	defer s.recover()
	n := s.delivered.Add(1)
	if !s.opts.Keys && s.inf.guard.sampler.Sampled(n) {
		check := s.inf.guard.sampler.Watch(d.Object, d.Key)
		defer check(s.opts.Name)
	}
	deliver(d)
}

// call is what the handler is being called for; zero for OnSynced.
type call struct {
	delta object.DeltaType
	key   object.Key
}

func (c call) String() string {
	if c.delta == 0 {
		return "synced"
	}
	return c.delta.String()
}

// recover, when deferred, recovers a panic of the handler, and delivery continues.
func (s *Subscription[T]) recover() {
	if reason := recover(); reason != nil {
		s.panicked(s.calling, reason)
	}
}

// panicked counts, logs and reports a panic, or runtime.Goexit if reason is nil. The handler does not get the
// notification again: it would most likely panic again. So the program is told which one was lost.
func (s *Subscription[T]) panicked(during call, reason any) {
	s.panics.Add(1)
	stack := debug.Stack()
	message, args := "handler called runtime.Goexit", []any{"handler", s.opts.Name, "key", during.key.String(), "delta", during.String()}
	if reason != nil {
		message, args = "handler panicked", append(args, "panic", fmt.Sprint(reason))
	}
	s.inf.log.Log(slog.LevelError, message, append(args, "stack", string(stack))...)
	s.inf.reportError(&PanicError{
		Resource: s.inf.cfg.Name, Function: fmt.Sprintf("handler %q", s.opts.Name), Delta: during.delta, Key: during.key, Value: reason, Stack: stack,
	})
}

// HandlerStatus is the state of one handler.
type HandlerStatus struct {
	Name              string
	Policy            deltafifo.Policy
	Synced            bool
	Pending           int
	Lag               time.Duration
	Delivered, Panics uint64
	Coalesced         uint64
	// Full says that the policy is Block and the queue is full: the informer waits for the handler.
	Full bool
}

// Status returns the state of the handler. It only holds the queue's own lock, briefly.
func (s *Subscription[T]) Status() HandlerStatus {
	q := s.queue.Stats()
	st := HandlerStatus{
		Name: s.opts.Name, Policy: s.opts.Queue.Policy, Pending: q.Pending, Lag: q.Oldest, Coalesced: q.Coalesced,
		Delivered: s.delivered.Load(), Panics: s.panics.Load(), Full: s.queue.Full(),
	}
	select {
	case <-s.synced:
		st.Synced = true
	default:
	}
	return st
}
