package reflector

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// ErrStopped is returned by Step and Run on a reflector whose context has ended before.
var ErrStopped = errors.New("the reflector has stopped")

// triesInPlace is how often in a row something may fail before it is tried another way: a WatchList before paged
// lists, a watch before a relist, a page before the whole list.
const triesInPlace = 3

// Reflector keeps its sink equal to one collection.
//
// Run and Step belong to one goroutine. Status may be called from any. The fields below are the machine's state;
// what other goroutines may see of it is copied to status.
type Reflector[T object.Object] struct {
	opts    Options[T]                 // complete
	known   source.Known[T]            // Sink.Known
	drop    func(source.Event[T]) bool // unusable; kept because making it allocates
	log     *slog.Logger
	rand    *rand.Rand
	backoff backoff
	status  counters

	phase Phase
	// resume makes Starting go on from last.
	resume bool
	// BackingOff ends at until, and leads to next.
	next  Phase
	until time.Time

	// last is the newest version seen; it never goes back. Where versions cannot be compared, the last one seen.
	last string
	// mostRecent makes the next list ask for the most recent state because the server cannot tell whether it
	// has last. It holds until a list succeeds.
	mostRecent bool
	// noWatchListUntil is when WatchList gets another chance after it was found missing.
	noWatchListUntil time.Time
	// unfinished counts WatchList streams in a row that ended before they were complete, stuck counts watches in
	// a row that failed without bringing anything new.
	unfinished, stuck int
	// invalidLogged is when an invalid event was last logged.
	invalidLogged time.Time

	list   list[T]      // what is gathered while WatchListing or Listing
	stream *watching[T] // open while WatchListing or Watching; nil if it is still to be opened
	buf    []source.Event[T]
}

// New returns a reflector that has not begun. The error says which option is wrong.
func New[T object.Object](opts Options[T]) (*Reflector[T], error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(opts.Seed, 0))
	r := &Reflector[T]{
		opts: opts, known: opts.Sink.Known, log: opts.Logger.With("resource", opts.Name), rand: random,
		backoff: backoff{Backoff: opts.Backoff, rand: random},
		last:    opts.ResourceVersion, resume: opts.ResourceVersion != "",
	}
	r.drop = r.unusable
	r.status.paged.Store(opts.DisableWatchList)
	r.status.version.store(r.last)
	return r, nil
}

// Run reflects until ctx ends, and returns the cause of that. No failure of the server or the network ends it.
// When it returns, nothing that it started is left.
func (r *Reflector[T]) Run(ctx context.Context) error {
	defer r.stop() // for the panics of a sink
	for {
		if err := r.Step(ctx); err != nil {
			return err
		}
	}
}

// Step does the work of the current phase, which is at most one request, one read or one wait, and picks the
// next phase. It returns nil until ctx ends, then the cause of that. All steps need the same ctx.
func (r *Reflector[T]) Step(ctx context.Context) error {
	if r.phase != Stopped && ctx.Err() != nil {
		r.stop()
		return context.Cause(ctx)
	}
	switch r.phase {
	case Starting:
		r.start()
	case WatchListing:
		r.watchList(ctx)
	case Listing:
		r.listPage(ctx)
	case Watching:
		r.watch(ctx)
	case BackingOff:
		r.waitOut(ctx)
	default:
		return ErrStopped
	}
	return nil
}

// start picks how to get the collection.
func (r *Reflector[T]) start() {
	paged := r.opts.DisableWatchList || time.Now().Before(r.noWatchListUntil)
	r.status.paged.Store(paged)
	r.list.restart()
	r.status.gathered.Store(0)
	switch {
	case r.resume:
		r.resume = false
		r.enter(Watching)
	case paged:
		r.enter(Listing)
	default:
		r.enter(WatchListing)
	}
}

func (r *Reflector[T]) enter(p Phase) {
	r.phase = p
	r.status.phase.Store(uint32(p))
}

// stop ends the machine and releases what it holds. It is idempotent.
func (r *Reflector[T]) stop() {
	r.closeStream()
	r.list = list[T]{}
	r.enter(Stopped)
}

// pause makes the machine go on with next at the given time.
func (r *Reflector[T]) pause(until time.Time, next Phase) {
	r.next, r.until = next, until
	r.status.retry.store(until)
	r.enter(BackingOff)
}

func (r *Reflector[T]) waitOut(ctx context.Context) {
	timer := time.NewTimer(time.Until(r.until))
	defer timer.Stop()
	select {
	case <-timer.C:
		r.status.retry.clear()
		r.enter(r.next)
	case <-ctx.Done():
	}
}

// fail reports a failure of the current phase, and makes the machine go on with next after a wait.
func (r *Reflector[T]) fail(err error, next Phase) {
	now := time.Now()
	r.status.errors.Add(1)
	e := r.newError(err, int(r.status.failures.Add(1)), now)
	e.RetryAt = now.Add(r.backoff.next(now, retryAfter(err)))
	r.status.lastError.Store(e)
	r.log.Warn(e.Error(), "phase", e.Phase, "attempt", e.Attempt, "retry_in", e.RetryAt.Sub(now))
	r.opts.OnError(e)
	r.pause(e.RetryAt, next)
}

func (r *Reflector[T]) newError(err error, attempt int, now time.Time) *Error {
	return &Error{
		Name: r.opts.Name, Resource: r.opts.Resource, Phase: r.phase, Reason: reasonOf(err), Err: err,
		Attempt: attempt, When: now,
	}
}

// heard notes that the server is there.
func (r *Reflector[T]) heard() { r.status.contact.store(time.Now()) }

// succeeded notes that things go well.
func (r *Reflector[T]) succeeded() {
	r.stuck = 0
	if r.status.failures.Load() != 0 {
		r.status.failures.Store(0)
	}
}

// advance notes that the sink has everything up to version.
func (r *Reflector[T]) advance(version string) {
	if version == r.last {
		return
	}
	r.last = object.MaxResourceVersion(r.last, version)
	r.status.version.store(r.last)
}
