package reflector

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// ErrStopped is returned by Run on a reflector that has stopped.
var ErrStopped = errors.New("the reflector has stopped")

// triesInPlace is how often in a row something may fail before a fallback is used: a WatchList before paged
// lists, a watch before a relist, a page before a new list.
const triesInPlace = 3

// Phase is a state of the machine.
type Phase uint8

// The phases.
const (
	// Starting picks how to get the collection, and drops an unfinished list.
	Starting Phase = iota
	// WatchListing reads the current objects from the beginning of a watch.
	WatchListing
	// Listing reads the current objects page by page.
	Listing
	// Checking asks, before a watch is resumed after an outage, whether the server still has the history that the
	// sink's contents come from.
	Checking
	// Watching reads changes.
	Watching
	// BackingOff waits before the next request.
	BackingOff
	// Stopped is the final phase, after the context has ended.
	Stopped
)

var phaseNames = [...]string{
	Starting: "starting", WatchListing: "watch-listing", Listing: "listing", Checking: "checking", Watching: "watching",
	BackingOff: "backing off", Stopped: "stopped",
}

// String returns the phase in lower case, as it appears in messages.
func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return fmt.Sprintf("Phase(%d)", uint8(p))
}

// Reflector keeps its sink in sync with one collection.
//
// Run must be called from one goroutine. The other methods may be called from any. The fields below
// are the machine's state; what other goroutines may see of it is copied to status.
type Reflector[T object.Object] struct {
	internals // reflectorInternals

	opts     Options[T] // with defaults
	holder   intake.Holder[T]
	decoding decodingSource[T] // opts.Source, if its objects are decoded by the holder
	status   counters
	retry    retry       // how long to wait before a request
	logged   logThrottle // what was logged, and when

	phase    Phase
	resuming resuming
	pause    pause

	// last is the newest version seen. It only goes back if the server's history was rewritten. If versions
	// cannot be compared, it is the last one seen.
	last string
	// mostRecent makes the next list request the most recent state because the server cannot tell whether it
	// has last. It is cleared when a list succeeds.
	mostRecent       bool
	history          history
	historyConfirmed bool          // the server has just shown that its history reaches last
	unconfirmedSince time.Time     // since when no watch was confirmed, as of the end of the last one; zero if it was
	relistRequest    relistRequest // a requested relist
	bookmarkRhythm   bookmarkRhythm
	deafness         deafness
	numbering        numbering
	beside           beside
	listMethod       listMethod

	// failedWatches counts the consecutive watches that were rejected or failed without delivering anything new.
	failedWatches int
	// expired is set once last has expired, until there is progress.
	expired bool

	skipped skipped[T]
	list    list[T]      // what has been gathered in WatchListing or Listing
	stream  *watching[T] // open in WatchListing and Watching; nil if it has yet to be opened
	opened  bool         // whether the server accepted the last watch, which may have ended since
	inbox   inbox[T]
}

// resuming is what the holder had before the reflector began.
type resuming struct {
	// due makes Starting ask the holder for it. active is set from then on until the holder gets a list.
	due, active bool
	newest      object.Key // Contents.Newest
	recent      string     // the server's version at the last check
}

// inbox is what a watch has brought together. Its room is kept for the next batch.
type inbox[T object.Object] struct {
	events  []event[T]
	plain   []source.Event[T]                         // through which those of a source that decodes by itself come
	arrived func(source.Event[T], intake.Received[T]) // eventArrived
	changes []intake.Change[T]                        // for the holder
}

// pause is the wait of BackingOff.
type pause struct {
	until time.Time
	next  Phase  // the phase that follows
	after Reason // the failure that led to it; empty if there was none
}

// New returns a reflector that has not started. The error says which option is invalid.
func New[T object.Object](opts Options[T]) (*Reflector[T], error) {
	if opts.Sink == nil {
		return nil, errors.New("reflector: Options.Sink is missing")
	}
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	holder := intake.HolderOf[T](opts.Sink, intake.Previous[T](opts.Previous))
	r := &Reflector[T]{
		opts: opts, holder: holder, resuming: resuming{due: true},
		retry: newRetry(opts.Backoff, opts.Peers, rand.New(rand.NewPCG(opts.Seed, 0))),
	}
	r.internals = intake.NewInternals(reflectorInternals[T]{r})
	if src, ok := intake.OwnInternalsOf(opts.Source).(decodingSource[T]); ok {
		r.decoding = src
	}
	r.inbox.arrived = r.eventArrived
	r.list = list[T]{gather: holder.Gather, kept: r.advance, isStranger: r.isListed}
	r.status.epoch = time.Now()
	r.status.paged.Store(opts.DisableWatchList)
	unnumbered, ok := opts.Source.(interface{ Unnumbered() bool })
	r.status.unproven.Store(ok && unnumbered.Unnumbered())
	return r, nil
}

// Run runs the reflector until ctx ends, and returns the cause of that. It survives failures of the
// server and the network, and panics in functions that it calls, which are reported as Errors and
// followed by a relist. When it returns, everything that it started has ended.
func (r *Reflector[T]) Run(ctx context.Context) error {
	defer r.stop()
	for {
		if err := r.recoverStep(ctx); err != nil {
			return err
		}
	}
}

// recoverStep calls step and turns a panic into a failure.
func (r *Reflector[T]) recoverStep(ctx context.Context) error {
	defer func() {
		if reason := recover(); reason != nil {
			r.status.panics.Add(1)
			r.closeStream()
			r.list.restart()
			r.release()
			r.fail(newPanicError(reason), Starting)
		}
	}()
	return r.step(ctx)
}

// step does the work of the current phase, which is at most one request, one read or one wait, and picks the
// next phase. It returns nil until ctx ends, then the cause of that. All calls need the same ctx. It does not recover
// panics of the sink.
func (r *Reflector[T]) step(ctx context.Context) error {
	if r.phase != Stopped && ctx.Err() != nil {
		r.stop()
		return context.Cause(ctx)
	}
	r.obeyRelistRequest()
	switch r.phase {
	case Starting:
		r.start(ctx)
	case WatchListing:
		r.watchList(ctx)
	case Listing:
		r.listPage(ctx)
	case Checking:
		r.checkHistory(ctx)
	case Watching:
		r.watch(ctx)
	case BackingOff:
		r.endPause(ctx)
	default:
		return ErrStopped
	}
	return nil
}

// start picks how to get the collection.
func (r *Reflector[T]) start(ctx context.Context) {
	if r.resuming.due && !r.askResume(ctx) {
		return
	}
	if r.status.lists.Load() > 0 && !r.listMethod.tryLists {
		if wait := r.retry.relists.take(time.Now()); wait > 0 {
			r.backOff(wait, Starting, "")
			return
		}
	}
	now := time.Now()
	paged := r.opts.DisableWatchList || r.listMethod.paged(now) || r.opts.Peers.listsFaster(r.opts.Resource.Group, now)
	r.status.paged.Store(paged)
	r.list.wentBack = nil
	if r.historySuspect() && !r.history.rewritten && !r.unproven() {
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

// askResume asks the holder where to begin, and reports whether that is with a list.
func (r *Reflector[T]) askResume(ctx context.Context) (list bool) {
	held, err := r.holder.Resume(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		r.fail(err, Starting)
	case isUnset(held.ResourceVersion):
		r.resuming.due, list = false, true
	case held.List:
		r.resuming.due, list = false, true
		r.advance(held.ResourceVersion)
	default:
		r.resuming.due, r.resuming.active, r.resuming.newest = false, true, held.Newest
		r.advance(held.ResourceVersion)
		r.enter(Checking)
	}
	return list
}

func (r *Reflector[T]) enter(p Phase) {
	r.phase = p
	r.status.phase.Store(uint32(p))
}

// stop ends the machine and releases what it holds. It is idempotent.
func (r *Reflector[T]) stop() {
	r.closeStream()
	r.beside.stop()
	r.list.restart()
	r.status.askedAt.clear()
	r.status.retryAt.clear()
	r.enter(Stopped)
}

// backOff waits before entering next.
func (r *Reflector[T]) backOff(wait time.Duration, next Phase, after Reason) {
	r.pause = pause{until: time.Now().Add(wait), next: next, after: after}
	r.status.set(&r.status.retryAt, r.pause.until)
	r.enter(BackingOff)
}

// endPause waits until the pause is over or a peer makes a discovery that makes it unnecessary.
func (r *Reflector[T]) endPause(ctx context.Context) {
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
		r.backOff(min(r.retry.waitForTurn(every), time.Until(r.pause.until)), r.pause.next, "")
	case <-ctx.Done():
	}
}

// admitRequest reports whether a request may be sent now. If not, it backs off until one may.
func (r *Reflector[T]) admitRequest() bool {
	now := time.Now()
	if wait := r.retry.requests.take(now); wait > 0 {
		r.backOff(wait, r.phase, "")
		return false
	}
	r.noteRequest(now)
	return true
}

// noteRequest records that a request is about to be sent.
func (r *Reflector[T]) noteRequest(now time.Time) {
	r.retry.seen = r.opts.Peers.discoveriesSoFar()
	r.status.set(&r.status.askedAt, now)
}

// noteResponse records the outcome of a request.
func (r *Reflector[T]) noteResponse(err error) {
	r.status.askedAt.clear()
	switch {
	case err == nil:
		r.noteContact()
		r.opts.Peers.noteServed(r.opts.Resource, r.status.failures.Load() > 0)
	case fromServer(err):
		r.status.reached.Store(true)
		r.opts.Peers.noteResponse()
	}
}

// noteContact records that the server was heard from.
func (r *Reflector[T]) noteContact() {
	r.status.set(&r.status.lastContact, time.Now())
	if !r.status.reached.Load() {
		r.status.reached.Store(true)
	}
}

// advance records that the sink has everything up to version.
func (r *Reflector[T]) advance(version string) {
	if version == r.last {
		return
	}
	r.last = object.MaxResourceVersion(r.last, version)
	r.status.version.store(r.last)
	r.status.lead.reached(r.last)
}

// progressed resets the record of failures: something new has arrived, or a watch has lasted.
func (r *Reflector[T]) progressed() {
	r.failedWatches, r.expired, r.list.maxPages = 0, false, 0
	r.retry.progressed()
}
