package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/usercode"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// part is one list and watch of an informer: the whole resource, or one namespace of it. It is the reflector's
// intake.Holder and runs on the reflector's goroutine.
type part[T object.Object] struct {
	inf       *Informer[T]
	namespace string
	source    source.ListerWatcher[T]
	reflector *reflector.Reflector[T]
	transform func(T) (T, error)
	sharer    source.Sharer[T] // of transformed objects
	leftOut   leftOut          // by the transform
	made      time.Time

	ctx    context.Context // the part's lifetime, within the informer's
	cancel context.CancelFunc
	// rewrites is the reflector's count of rewritten histories as of the last list; used on the reflector's goroutine.
	rewrites               uint64
	audit                  auditor[T]
	replaceUnconditionally atomic.Bool   // the next list replaces the store's state unconditionally
	done                   chan struct{} // closed when the part's goroutine has ended
	caller                 usercode.Caller
	file                   *partFile
	beginning              beginning

	// What follows is guarded by Informer.apply.
	removed   bool            // the part's namespace was removed: nothing of it is applied any more
	deletions deletionTracker // of objects known not to exist

	// inFlight is used by the reflector's goroutine only.
	inFlight inFlight[T]
	// compares says that the source may not number states: it is not ours over HTTP.
	compares bool
	// resolvedProblem is the problem that the last list resolved. The reflector's own status clears
	// it only after it has handed the list over.
	resolvedProblem atomic.Pointer[reflector.Error]
	// healNext is when, at the earliest, a list may again be requested because of a write to a
	// cached object, and healWait the interval before that. Guarded by Informer.mu.
	healNext time.Time
	healWait time.Duration
	// unhealable says that the source is a fake client, which may hand out its own objects: a list
	// would bring what was written to once more. It is set before the part runs.
	unhealable bool
	// unreadable is when a list was last requested because a folded object could not be opened. Guarded by Informer.mu.
	unreadable time.Time
}

// newParts creates parts for the namespaces without running them. inf.mu is held.
func (inf *Informer[T]) newParts(namespaces []string) ([]*part[T], error) {
	var parts []*part[T]
	for _, namespace := range namespaces {
		p, err := inf.newPart(namespace)
		if err != nil {
			for _, made := range parts {
				made.cancel()
			}
			return nil, fmt.Errorf("%s: %w", inf.cfg.Name, err)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func (inf *Informer[T]) newPart(namespace string) (*part[T], error) {
	src, err := inf.cfg.NewSource(namespace)
	if err != nil {
		return nil, err
	}
	if s, ok := src.(interface{ OnStrayWrite(func(field string)) }); ok {
		s.OnStrayWrite(inf.guard.corrupted)
	}
	p := &part[T]{inf: inf, namespace: namespace, source: src, transform: inf.transform, made: time.Now(), done: make(chan struct{})}
	p.sharer.MaxSharedBytes, p.sharer.OnStrayWrite = inf.maxShared(), inf.guard.corrupted
	_, ours := src.(*source.HTTP[T])
	p.compares = !ours
	p.audit.part = p
	p.file = inf.files.ofPart(namespace)
	name := inf.cfg.Name
	if len(inf.cfg.Namespaces) > 1 {
		name = fmt.Sprintf("%s in namespace %q", name, namespace)
	}
	opts := reflector.Options[T]{
		Name: name, Resource: inf.cfg.Resource, Source: src, Previous: p.previous, NoSharing: p.transform != nil,
		Logger: inf.cfg.Logger, OnError: p.onError, DisableWatchList: inf.cfg.NoWatchList, Backoff: inf.cfg.Backoff,
		PageSize: inf.cfg.PageSize, Seed: inf.partSeed(), Peers: inf.cfg.Peers,
	}
	if s, ok := src.(interface{ Unnumbered() bool }); ok && s.Unnumbered() {
		p.unhealable = true
		p.deletions.turnOffForever()
	}
	if p.reflector, err = reflector.NewHolding(opts, p); err != nil {
		return nil, err
	}
	p.ctx, p.cancel = context.WithCancel(withValues{inf.life, inf.values})
	return p, nil
}

// withValues is a context that has the values of another one, too.
type withValues struct {
	context.Context
	values context.Context
}

// Value returns the context's own value if it has one, because package context finds out from that what ends a context.
func (c withValues) Value(key any) any {
	if own := c.Context.Value(key); own != nil {
		return own
	}
	return c.values.Value(key)
}

func (p *part[T]) run() {
	defer p.end()
	returned := false
	defer func() {
		if !returned {
			p.inf.log.Log(slog.LevelError, "a transform or an index function called runtime.Goexit; the informer stops", "stack", string(debug.Stack()))
			p.inf.Halt(errGoexit)
		}
	}()
	defer p.audit.start()()
	defer p.cancel()
	p.caller.Enter()
	defer p.caller.Leave()
	_ = p.reflector.Run(p.ctx) // ends with ctx, whose cause the informer reports
	returned = true
}

// errGoexit is why an informer has stopped whose goroutine was ended by the user's function, as
// testing.T.FailNow does. That function may have left an object half way to the store.
var errGoexit = errors.New("a transform or an index function called runtime.Goexit")

// end marks the goroutine as ended.
func (p *part[T]) end() {
	inf := p.inf
	inf.mu.Lock()
	inf.running = slices.DeleteFunc(slices.Clone(inf.running), func(other *part[T]) bool { return other == p })
	inf.mu.Unlock()
	close(p.done)
}

// Held implements intake.Holder.
func (p *part[T]) Held(key object.Key) (T, bool) {
	held, ok := p.inf.store.Snapshot().Held(key)
	if !ok {
		var none T
		return none, false
	}
	return held.Object(), true
}

// Change implements intake.Holder: it takes changes through the store to the handlers.
func (p *part[T]) Change(changes []intake.Change[T], resourceVersion string) {
	p.beginning.adding.Store(true)
	defer p.beginning.adding.Store(false)
	resolve(changes)
	defer p.inFlight.delivered()
	if p.transform != nil {
		p.transformChanges(changes)
	}
	if p.beginning.mayWait() {
		// Waiting counts as silence: otherwise awaitQuiet cannot finish, and a handler that waits for sync would wait
		// forever.
		p.beginning.adding.Store(false)
		p.inf.waitForRoom(p.ctx)
		p.beginning.adding.Store(true)
	}
	p.guardChanges(changes)
	notes := p.inf.applyChanges(p, changes, resourceVersion)
	p.inf.budget.note(notes)
	p.resumedTo(resourceVersion)
}

// Gather implements intake.Holder.
func (p *part[T]) Gather(n int) intake.Gathering[T] {
	p.sharer.Recheck()
	p.leftOut.begin()
	if within := p.inf.budget.gather(p, n); within != nil {
		return within
	}
	if p.transform != nil {
		return transformingGatherer[T]{intake.NewGathering[T](n), p}
	}
	return intake.NewGathering[T](n)
}

// Replace implements intake.Holder: it makes the objects the whole content of the part.
func (p *part[T]) Replace(objects object.Collection[T], resourceVersion string) {
	if p.beginning.over() { // otherwise handlers may be waiting for this list
		p.inf.waitForRoom(p.ctx)
	}
	p.guardList(objects)
	p.leftOut.relisted()
	p.inf.applyList(p, objects, resourceVersion, p.historyRewritten() || p.contradicts(objects, resourceVersion))
	p.inf.guard.sampler.Forget()
	p.inf.budget.relisted()
	p.inf.notify()
}

// forceRelist requests a list that replaces the store's state unconditionally. The reflector logs
// and reports the cause.
func (p *part[T]) forceRelist(cause error) {
	p.replaceUnconditionally.Store(true)
	p.reflector.Relist(cause)
}

// contradictedError says that a list and the store belong to different histories.
type contradictedError struct {
	key     object.Key
	version string
}

func (e contradictedError) Error() string {
	return fmt.Sprintf("the server's list at resource version %s has an older state of %s than was seen before: its data were probably restored from a backup", e.version, e.key)
}

// historyRewritten reports whether the next list replaces the store's state unconditionally:
// because the server's history was rewritten since the last list, because the store was found to
// differ from the server, or because the versions of the server's lists prove nothing. The list's
// version need not show that: the new history may have overtaken the old one.
func (p *part[T]) historyRewritten() bool {
	before, st := p.rewrites, p.reflector.Status()
	p.rewrites = st.Rewrites
	unconditional := p.replaceUnconditionally.Swap(false)
	return unconditional || st.UnprovenVersions || p.rewrites > before
}

// onError is called by the reflector, which has logged the error.
func (p *part[T]) onError(err *reflector.Error) {
	p.inf.reportError(err)
	p.inf.notify()
}
