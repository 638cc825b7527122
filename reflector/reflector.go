package reflector

import (
	"context"
	"errors"
	"fmt"
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

// Phase is a state of the machine.
type Phase uint8

// The phases.
const (
	// Starting picks how to get the collection, and forgets a list that was left unfinished.
	Starting Phase = iota
	// WatchListing reads the current objects from the head of a watch.
	WatchListing
	// Listing reads the current objects page by page.
	Listing
	// Checking asks, before a watch is resumed after an outage, whether the server still has the history that the
	// sink was brought from.
	Checking
	// Watching reads changes.
	Watching
	// BackingOff waits before the next request.
	BackingOff
	// Stopped is the end: the context has ended.
	Stopped
)

var phaseNames = [...]string{
	Starting: "starting", WatchListing: "watch-listing", Listing: "listing", Checking: "checking", Watching: "watching",
	BackingOff: "backing off", Stopped: "stopped",
}

// String returns the phase in lower case, as it stands in messages.
func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return fmt.Sprintf("Phase(%d)", uint8(p))
}

// Reflector keeps its sink equal to one collection.
//
// Run and Step belong to one goroutine. Status may be called from any. The fields below are the machine's state;
// what other goroutines may see of it is copied to status.
type Reflector[T object.Object] struct {
	opts   Options[T] // complete
	log    *slog.Logger
	status counters
	retry  retry   // how long to wait before a request
	spoken journal // what was logged, and when

	phase Phase
	// resume makes Starting ask Options.Resume for last, and go on from there.
	resume bool
	// resumed is set from then on until the sink gets a list. newest is Contents.Newest, recent the server's version at the last check.
	resumed bool
	newest  object.Key
	recent  string
	pause   pause

	// last is the newest version seen. It goes back only when the server's history was rewritten. Where versions
	// cannot be compared, it is the last one seen.
	last string
	// mostRecent makes the next list ask for the most recent state because the server cannot tell whether it
	// has last. It holds until a list succeeds.
	mostRecent bool
	history    history
	vouched    bool  // the server has just shown that its history comes as far as last
	ordered    order // to list anew
	rhythm     rhythm
	method     method

	// stuck counts the watches in a row that were refused or failed without bringing anything new.
	stuck int
	// expired is set once last has expired, until there is progress.
	expired bool

	skipped skipped[T]
	list    list[T]      // what is gathered while WatchListing or Listing
	stream  *watching[T] // open while WatchListing or Watching; nil if it is still to be opened
	buf     []source.Event[T]
}

// pause is what BackingOff waits for.
type pause struct {
	until time.Time
	next  Phase  // the phase that follows
	after Reason // what made it necessary; empty if nothing has failed
}

// New returns a reflector that has not begun. The error says which option is wrong.
func New[T object.Object](opts Options[T]) (*Reflector[T], error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Reflector[T]{
		opts: opts, log: opts.Logger.With("resource", opts.Name),
		retry: newRetry(opts.Backoff, opts.Peers, rand.New(rand.NewPCG(opts.Seed, 0))), list: list[T]{gatherer: opts.NewGatherer},
		resume: opts.Resume != nil,
	}
	r.status.epoch = time.Now()
	r.status.paged.Store(opts.DisableWatchList)
	return r, nil
}

// Run reflects until ctx ends, and returns the cause of that. Neither a failure of the server or the network ends it, nor
// a panic in what it calls, which is reported as an Error and followed by a relist. When it returns, nothing that it
// started is left.
func (r *Reflector[T]) Run(ctx context.Context) error {
	defer r.stop()
	for {
		if err := r.guardedStep(ctx); err != nil {
			return err
		}
	}
}

// guardedStep is Step, but a panic in it is a failure.
func (r *Reflector[T]) guardedStep(ctx context.Context) error {
	defer func() {
		if reason := recover(); reason != nil {
			r.status.panics.Add(1)
			r.closeStream()
			r.list.restart()
			r.release()
			r.fail(newPanicError(reason), Starting)
		}
	}()
	return r.Step(ctx)
}

// Step does the work of the current phase, which is at most one request, one read or one wait, and picks the
// next phase. It returns nil until ctx ends, then the cause of that. All steps need the same ctx. A panic of the sink comes
// out of it.
func (r *Reflector[T]) Step(ctx context.Context) error {
	if r.phase != Stopped && ctx.Err() != nil {
		r.stop()
		return context.Cause(ctx)
	}
	r.obey()
	switch r.phase {
	case Starting:
		r.start(ctx)
	case WatchListing:
		r.watchList(ctx)
	case Listing:
		r.listPage(ctx)
	case Checking:
		r.check(ctx)
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
func (r *Reflector[T]) start(ctx context.Context) {
	if r.resume {
		r.askResume(ctx)
		return
	}
	if r.status.lists.Load() > 0 && !r.method.tryLists {
		if wait := r.retry.relists.take(time.Now()); wait > 0 {
			r.backOff(wait, Starting, "")
			return
		}
	}
	paged := r.opts.DisableWatchList || r.method.paged(time.Now())
	r.status.paged.Store(paged)
	r.list.wentBack = nil
	if r.suspected() && !r.history.rewritten {
		r.list.wentBack = r.wentBack
	}
	r.list.restart()
	r.status.gathered.Store(0)
	switch {
	case paged:
		r.enter(Listing)
	default:
		r.enter(WatchListing)
	}
}

// askResume asks Options.Resume where to begin.
func (r *Reflector[T]) askResume(ctx context.Context) {
	held, err := r.opts.Resume(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		r.fail(err, Starting)
	case unset(held.ResourceVersion):
		r.resume = false
	case held.List:
		r.resume = false
		r.advance(held.ResourceVersion)
	default:
		r.resume, r.resumed, r.newest = false, true, held.Newest
		r.advance(held.ResourceVersion)
		r.enter(Checking)
	}
}

func (r *Reflector[T]) enter(p Phase) {
	r.phase = p
	r.status.phase.Store(uint32(p))
}

// stop ends the machine and releases what it holds. It is idempotent.
func (r *Reflector[T]) stop() {
	r.closeStream()
	r.list.restart()
	r.status.asked.clear()
	r.enter(Stopped)
}

// backOff makes the machine go on with next after a wait.
func (r *Reflector[T]) backOff(wait time.Duration, next Phase, after Reason) {
	r.pause = pause{until: time.Now().Add(wait), next: next, after: after}
	r.status.set(&r.status.retryAt, r.pause.until)
	r.enter(BackingOff)
}

// waitOut waits for the end of the pause, or for a peer that has found out that there is no need to wait any longer.
func (r *Reflector[T]) waitOut(ctx context.Context) {
	timer := time.NewTimer(time.Until(r.pause.until))
	defer timer.Stop()
	peers := r.opts.Peers.await(r.opts.Resource, r.retry.awaits(r.pause.after))
	defer peers.leave()
	select {
	case <-timer.C:
		r.retry.waited(r.pause.after)
		r.status.retryAt.clear()
		r.enter(r.pause.next)
	case every := <-peers.wake:
		r.retry.woken(r.pause.after)
		r.backOff(min(r.retry.turn(every), time.Until(r.pause.until)), r.pause.next, "")
	case <-ctx.Done():
	}
}

// admitted tells whether a request may be sent now. If not, there is a wait until it may.
func (r *Reflector[T]) admitted() bool {
	now := time.Now()
	if wait := r.retry.requests.take(now); wait > 0 {
		r.backOff(wait, r.phase, "")
		return false
	}
	r.retry.seen = r.opts.Peers.soFar()
	r.status.set(&r.status.asked, now)
	return true
}

// answered notes that the server has answered a request, with an error if err is not nil.
func (r *Reflector[T]) answered(err error) {
	r.status.asked.clear()
	switch {
	case err == nil:
		r.heard()
		r.opts.Peers.served(r.opts.Resource, r.status.failures.Load() > 0)
	case fromServer(err):
		r.status.reached.Store(true)
		r.opts.Peers.answered()
	}
}

// heard notes that the server is there.
func (r *Reflector[T]) heard() {
	r.status.set(&r.status.contact, time.Now())
	if !r.status.reached.Load() {
		r.status.reached.Store(true)
	}
}

// Seen notes that the sink has had objects up to version from a list that was given up: the next one has to be as new. It is for the Close of a Gatherer.
func (r *Reflector[T]) Seen(version string) { r.advance(version) }

// advance notes that the sink has everything up to version.
func (r *Reflector[T]) advance(version string) {
	if version == r.last {
		return
	}
	r.last = object.MaxResourceVersion(r.last, version)
	r.status.version.store(r.last)
}

// progressed forgets what has failed: something new has come, or a watch has lived.
func (r *Reflector[T]) progressed() {
	r.stuck, r.expired, r.list.furthest = 0, false, 0
	r.retry.progressed()
}
