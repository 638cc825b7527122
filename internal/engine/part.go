package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/tidings/tidings/internal/absent"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/saved"
	"github.com/tidings/tidings/internal/usercode"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// part is one list and watch of an informer: the whole resource, or one namespace of it. It is the reflector's
// intake.Holder and runs on the reflector's goroutine.
type part[T object.Object] struct {
	lifetime
	inf       *Informer[T]
	namespace string
	source    source.ListerWatcher[T]
	reflector *reflector.Reflector[T]

	beginning beginning      // how it gets its first state
	inFlight  inFlight[T]    // between source and store; used by the reflector's goroutine only
	transform transformer[T] // the user's
	file      *saved.File
	audit     auditor[T]
	healing   healing
	deletions absent.Deletions // of objects known not to exist; guarded by Informer.apply
	// compares says that the source may not number states: it is not ours over HTTP.
	compares bool
}

// lifetime is that of a part and its goroutine.
type lifetime struct {
	made    time.Time
	ctx     context.Context // within the informer's life
	cancel  context.CancelFunc
	done    chan struct{} // closed when the part's goroutine has ended
	caller  usercode.Caller
	removed bool // the part's namespace was removed: nothing of it is applied any more; guarded by Informer.apply
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

// newPart makes the part of a namespace. Nothing runs yet, so that it can be dropped if another one cannot be made.
func (inf *Informer[T]) newPart(namespace string) (*part[T], error) {
	src, err := inf.cfg.NewSource(namespace)
	if err != nil {
		return nil, err
	}
	intake.SharedParts{Of: src}.OnStrayWrite(inf.guard.corrupted)
	_, ours := src.(*source.HTTP[T]) // a server numbers states; other sources may be fakes, which do not
	p := &part[T]{inf: inf, namespace: namespace, source: src, file: inf.files.OfPart(namespace), compares: !ours}
	p.made, p.done = time.Now(), make(chan struct{})
	p.transform.init(inf.transform, inf.maxShared(), inf.guard.corrupted)
	p.audit.part = p
	name := inf.cfg.Name
	if len(inf.cfg.Namespaces) > 1 {
		name = fmt.Sprintf("%s in namespace %q", name, namespace)
	}
	opts := reflector.Options[T]{
		Name: name, Resource: inf.cfg.Resource, Source: src, Sink: intake.AsSink[T]{Holder: p},
		Previous: p.previous, NoSharing: p.transform.isSet(), Logger: inf.cfg.Logger, OnError: p.onError,
		DisableWatchList: inf.cfg.NoWatchList, FirstFromCache: inf.cfg.FirstFromCache, Backoff: inf.cfg.Backoff, PageSize: inf.cfg.PageSize,
		Seed: inf.partSeed(), Peers: inf.cfg.Peers,
	}
	if s, ok := src.(interface{ Unnumbered() bool }); ok && s.Unnumbered() {
		p.healing.useless = true
		p.deletions.TurnOffForever()
	}
	if p.reflector, err = reflector.New(opts); err != nil {
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
			p.inf.log.Log(slog.LevelError, "a transform or an index function called runtime.Goexit; the informer stops",
				"stack", string(debug.Stack()))
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
	if p.transform.isSet() {
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
	p.inf.memory.Note(notes)
	p.resumedTo(resourceVersion)
}

// Gather implements intake.Holder.
func (p *part[T]) Gather(n int) intake.Gathering[T] {
	p.transform.listing()
	if within := p.inf.memory.List(p, n); within != nil {
		return within
	}
	if p.transform.isSet() {
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
	p.transform.leftOut.Relisted()
	p.inf.applyList(p, objects, resourceVersion, p.replacement(objects, resourceVersion))
	p.inf.guard.sampler.Forget()
	p.inf.memory.Relisted()
	p.inf.notify()
}

// onError is called by the reflector, which has logged the error.
func (p *part[T]) onError(err *reflector.Error) {
	p.inf.reportError(err)
	p.inf.notify()
}
