package tidings

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/deltafifo"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/store"
)

const (
	defaultBuffer = 1024
	// takeAtOnce bounds how many coalesced deltas leave the outbox together, so that newer changes still merge
	// into the ones that stay.
	takeAtOnce = 256
)

// batch is what the informer tells its subscribers at once. All of them share it, and nobody writes to it.
type batch[T Object] struct {
	deltas  []object.Delta[T]
	snap    *store.Snapshot[T] // the store after deltas
	arrived time.Time
}

// replay is a snapshot that a subscriber is told of as a whole: its initial list, or a resync.
type replay[T Object] struct {
	snap    *store.Snapshot[T]
	initial bool
	arrived time.Time
}

// subscription is one handler, its outbox and its goroutine.
//
//	informer ──push──► outbox (replay, then ready, then late) ──take──► goroutine ──► handler
//
// The informer pushes under its apply lock, so the outbox sees every batch in order. While the goroutine keeps up,
// it is handed the batch that all subscribers share, and nothing is copied.
type subscription[T Object] struct {
	opts    Subscription
	deliver func(object.Delta[T])
	logger  *slog.Logger
	guard   *guard

	wake   chan struct{} // holds a token when there may be something to take
	room   chan struct{} // holds a token when something was taken
	synced chan struct{} // closed when the initial list has been delivered
	done   chan struct{} // closed when the goroutine has ended

	mu     sync.Mutex
	latest *store.Snapshot[T] // the store as of the last push; nil before the informer has synced
	replay *replay[T]         // comes before ready and late
	ready  []*batch[T]        // comes before late; under Coalesce filled only while the goroutine waits
	queued int                // deltas in ready
	late   deltafifo.Pending[T]
	busy   bool      // the goroutine is delivering
	since  time.Time // when what is being delivered arrived
	ended  bool      // the goroutine is gone; nothing is pushed any more

	stop      atomic.Bool // ends the goroutine before its next delivery
	left      atomic.Int64
	delivered atomic.Uint64
	panics    atomic.Uint64
}

func newSubscription[T Object](deliver func(object.Delta[T]), opts Subscription, logger *slog.Logger, g *guard) *subscription[T] {
	if opts.Buffer <= 0 {
		opts.Buffer = defaultBuffer
	}
	return &subscription[T]{
		opts: opts, deliver: deliver, guard: g,
		logger: logger.With("handler", opts.Name),
		wake:   make(chan struct{}, 1),
		room:   make(chan struct{}, 1),
		synced: make(chan struct{}),
		done:   make(chan struct{}),
	}
}

// signal leaves a token in c unless there is one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// begin gives the subscription its initial list.
func (s *subscription[T]) begin(snap *store.Snapshot[T], now time.Time) {
	s.mu.Lock()
	s.latest = snap
	s.replay = &replay[T]{snap: snap, initial: true, arrived: now}
	s.mu.Unlock()
	signal(s.wake)
}

// push adds b to the outbox. It never waits.
func (s *subscription[T]) push(b *batch[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.latest = b.snap
	if s.opts.Policy == Coalesce && (s.busy || s.waiting()) {
		for _, d := range b.deltas {
			s.late.Push(d, b.arrived)
		}
		return // the goroutine looks again before it waits
	}
	s.ready = append(s.ready, b)
	s.queued += len(b.deltas)
	signal(s.wake)
}

// waiting reports whether anything is in the outbox. mu is held.
func (s *subscription[T]) waiting() bool {
	return s.replay != nil || len(s.ready) > 0 || s.late.Len() > 0
}

// waitForRoom returns when a Block subscription has room for more, and at once for others.
func (s *subscription[T]) waitForRoom(ctx context.Context) {
	for s.opts.Policy == Block && s.full() {
		select {
		case <-s.room:
		case <-s.done:
		case <-ctx.Done():
			return
		}
	}
}

func (s *subscription[T]) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended && s.queued >= s.opts.Buffer
}

// run delivers until ctx ends or the subscription is stopped. It is the body of the subscription's goroutine.
func (s *subscription[T]) run(ctx context.Context) {
	defer s.end()
	var resync <-chan time.Time
	if s.opts.Resync > 0 {
		ticker := time.NewTicker(s.opts.Resync)
		defer ticker.Stop()
		resync = ticker.C
	}
	var buf []object.Delta[T]
	for due := false; !s.stop.Load(); {
		if s.work(ctx, &buf, &due) {
			continue
		}
		select {
		case <-s.wake:
		case <-resync:
			due = true
		case <-ctx.Done():
			return
		}
	}
}

// work takes what is next in the outbox and delivers it. It returns false when there is nothing to do.
func (s *subscription[T]) work(ctx context.Context, buf *[]object.Delta[T], due *bool) bool {
	s.mu.Lock()
	if *due && !s.waiting() && s.latest != nil {
		s.replay = &replay[T]{snap: s.latest, arrived: time.Now()}
		*due = false
	}
	s.busy = s.waiting()
	var deltas []object.Delta[T]
	switch {
	case s.replay != nil:
		r := s.replay
		s.replay, s.since = nil, r.arrived
		s.left.Store(int64(r.snap.Len()))
		s.mu.Unlock()
		s.deliverReplay(ctx, r)
		return true
	case len(s.ready) > 0:
		deltas = s.takeReady()
	case s.late.Len() > 0:
		s.since, _ = s.late.Oldest()
		*buf = s.late.Take((*buf)[:0], takeAtOnce)
		deltas = *buf
	default:
		s.mu.Unlock()
		return false
	}
	s.left.Store(int64(len(deltas)))
	s.mu.Unlock()
	signal(s.room)
	s.deliverAll(ctx, deltas)
	clear(*buf) // do not keep objects alive while waiting
	return true
}

// takeReady removes the oldest ready batch. mu is held.
func (s *subscription[T]) takeReady() []object.Delta[T] {
	b := s.ready[0]
	s.ready[0] = nil
	s.ready = s.ready[1:]
	if len(s.ready) == 0 {
		s.ready = nil // the buffer of a burst is not kept
	}
	s.queued -= len(b.deltas)
	s.since = b.arrived
	return b.deltas
}

func (s *subscription[T]) deliverAll(ctx context.Context, deltas []object.Delta[T]) {
	for i := range deltas {
		if s.stop.Load() || ctx.Err() != nil {
			return
		}
		s.call(deltas[i])
		s.left.Add(-1)
	}
}

func (s *subscription[T]) deliverReplay(ctx context.Context, r *replay[T]) {
	for key, obj := range r.snap.All() {
		if s.stop.Load() || ctx.Err() != nil {
			return
		}
		d := object.Delta[T]{Type: object.Sync, Key: key, Object: obj, Old: obj}
		if r.initial {
			d = object.Delta[T]{Type: object.Added, Key: key, Object: obj, Initial: true}
		}
		s.call(d)
		s.left.Add(-1)
	}
	if r.initial {
		close(s.synced)
	}
}

// call hands one delta to the handler. A panic in the handler ends here: it is counted and reported, and the
// next delta is delivered.
func (s *subscription[T]) call(d object.Delta[T]) {
	defer func() {
		if reason := recover(); reason != nil {
			s.panics.Add(1)
			s.logger.Error("handler panicked", "key", d.Key.String(), "delta", d.Type.String(),
				"panic", fmt.Sprint(reason), "stack", string(debug.Stack()))
		}
	}()
	n := s.delivered.Add(1)
	if s.guard.sampled(n) {
		check := s.guard.watch(d.Object, d.Key)
		defer check(s.opts.Name)
	}
	s.deliver(d)
}

// end marks the goroutine as gone and lets go of all that was pending.
func (s *subscription[T]) end() {
	s.mu.Lock()
	s.ended, s.busy = true, false
	s.replay, s.ready, s.queued, s.latest = nil, nil, 0, nil
	s.late = deltafifo.Pending[T]{}
	s.mu.Unlock()
	s.left.Store(0)
	close(s.done)
}

// status reports on the handler. It holds only the outbox's own lock, for a moment.
func (s *subscription[T]) status(now time.Time) HandlerStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := HandlerStatus{
		Name: s.opts.Name, Policy: s.opts.Policy,
		Pending: int(s.left.Load()) + s.queued + s.late.Len(), Delivered: s.delivered.Load(), Panics: s.panics.Load(),
	}
	if s.replay != nil {
		st.Pending += s.replay.snap.Len()
	}
	if oldest, ok := s.oldest(); ok {
		st.Lag = max(0, now.Sub(oldest))
	}
	return st
}

// oldest returns when the oldest delta that has not been delivered arrived. mu is held.
func (s *subscription[T]) oldest() (time.Time, bool) {
	switch {
	case s.busy:
		return s.since, true
	case s.replay != nil:
		return s.replay.arrived, true
	case len(s.ready) > 0:
		return s.ready[0].arrived, true
	default:
		return s.late.Oldest()
	}
}
