package replica

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/serve/internal/failure"
	"github.com/tidings/tidings/source"
)

// Freshness proves that a collection is as new as the API server. It asks the server for its
// version with a list of one object, and waits until the collection has reached that. One question
// answers all who asked before it was sent.
//
// The server's version grows with every change of any resource, and the collection hears of it only
// with its own changes and with bookmarks. So if it does not reach the version soon, a short watch
// from the collection's version shows whether it lacks anything: the server ends such a watch with
// a bookmark.
type Freshness struct {
	ctx        context.Context // ends the questions
	collection *Collection
	source     *source.HTTP[*codec.Raw]
	relist     func(cause error)

	probe  shared
	probes atomic.Int64 // asked for so far
	// noBookmarks is set once a probe has lasted to its end without a bookmark: the server has no cache of the
	// resource, as of events, and another probe would not prove anything either.
	noBookmarks atomic.Bool

	mu      sync.Mutex // guards the fields below
	running *question
	next    *question // for those who ask while running has been sent already
	work    sync.WaitGroup
	ended   bool // no more work is added
}

// start runs work in a goroutine of its own, for which wait waits. It returns false, and runs nothing, after that.
func (f *Freshness) start(work func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.work.Go(work)
	}
	return !f.ended
}

// wait returns when all work has ended, which ctx ends.
func (f *Freshness) wait() {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.work.Wait()
}

// question is one question to the API server.
type question struct {
	done    chan struct{} // closed when the fields below are set
	version uint64
	err     error
}

const (
	// AskPatience limits a question, and catchUpPatience how long the collection may take to reach the answer.
	AskPatience     = 3 * time.Second
	catchUpPatience = 100 * time.Millisecond
	// probeTimeout is the timeout of the short watch. A server sends the bookmark two seconds before.
	probeTimeout  = 3 * time.Second
	probePatience = 5 * time.Second
	// probeFrom is the number of objects from which waiting for a probe is better than burdening
	// the server with the list.
	probeFrom = 500
)

func newFreshness(ctx context.Context, c *Collection, s *source.HTTP[*codec.Raw]) *Freshness {
	return &Freshness{ctx: ctx, collection: c, source: s}
}

// errWentBack is the reason for a list after the server's version went back.
var errWentBack = errors.New("the server's version is older than what it has sent")

// check asks the server for its version. If that is older than the collection's, the server was restored from a backup,
// and the collection is of a history that is no more: errWentBack.
func (f *Freshness) check(ctx context.Context) (uint64, error) {
	seen, _ := f.collection.Now()
	version, err := f.ask(ctx)
	if err == nil && version < seen {
		f.relist(errWentBack)
		return 0, errWentBack
	}
	return version, err
}

// checkOften checks until ctx ends: a watch that was resumed at a restored server stays silent.
func (f *Freshness) checkOften(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_, _ = f.check(ctx) // what is wrong is the reflector's concern
		case <-ctx.Done():
			return
		}
	}
}

// ErrNotProved is the answer to who wants the most recent state while the API server cannot be reached.
var ErrNotProved = apierrors.NewTimeoutError("the API server cannot be reached, so nobody knows the most recent "+
	"state; resourceVersion=0 asks for what is known", 1)

// mostRecent implements protocol.Storage.MostRecent. ErrForward says that the collection has not caught up in time, or
// that the server was restored.
func (f *Freshness) mostRecent(ctx context.Context) (uint64, error) {
	version, err := f.check(ctx)
	switch {
	case failure.Unreachable(err):
		return 0, ErrNotProved
	case err != nil:
		return 0, ErrForward
	}
	now, ok := f.reach(ctx, version, catchUpPatience)
	if !ok && f.collection.newest().Len() >= probeFrom {
		f.look(ctx, version)
		now, ok = f.reach(ctx, version, 0)
	}
	if !ok {
		return 0, ErrForward
	}
	return now, nil
}

// expect looks whether the collection lacks anything up to a version that somebody waits for. Such a version comes from
// the API server or another replica, and may be that of a change of something else. It calls exists once the API server
// has shown that it has the version, and looked when no more can be known.
func (f *Freshness) expect(version uint64, exists, looked func()) {
	f.start(func() {
		if reached, err := f.check(f.ctx); err == nil && reached >= version {
			exists()
			f.look(f.ctx, version)
			looked()
		}
	})
}

// look has a probe look ahead, and returns when it ends.
func (f *Freshness) look(ctx context.Context, version uint64) {
	if f.noBookmarks.Load() {
		return
	}
	f.probes.Add(1)
	f.probe.do(ctx, f.start, func() { f.lookAhead(version) })
}

// reach waits until the collection has reached a version.
func (f *Freshness) reach(ctx context.Context, version uint64, patience time.Duration) (now uint64, ok bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		now, changed := f.collection.Now()
		if now >= version {
			return now, true
		}
		select {
		case <-changed:
		case <-timer.C:
			return 0, false
		case <-ctx.Done():
			return 0, false
		}
	}
}

// lookAhead watches from the collection's version until a bookmark shows that there is nothing up
// to version that the collection lacks.
func (f *Freshness) lookAhead(version uint64) {
	since, epoch := f.collection.position()
	began, bookmarks := time.Now(), 0
	ctx, cancel := context.WithTimeout(f.ctx, probePatience)
	defer cancel()
	w, err := f.source.Watch(ctx,
		source.WatchOptions[*codec.Raw]{ResourceVersion: Format(since), Timeout: probeTimeout})
	if err != nil {
		return
	}
	defer w.Close()
	var events []source.Event[*codec.Raw]
	for err == nil {
		events, err = w.Next(events[:0])
		for _, e := range events {
			reached, parseErr := protocol.ParseVersion(e.ResourceVersion)
			switch {
			case parseErr != nil || e.Type == source.Invalid:
				return
			case e.Type != source.Bookmark:
				since = reached // a change, which the collection must have, too
				continue
			}
			bookmarks++
			if reached >= version {
				if _, ok := f.reach(ctx, since, AskPatience); ok {
					f.collection.prove(epoch, since, reached)
				}
				return
			}
		}
	}
	if bookmarks == 0 && time.Since(began) >= probeTimeout && f.ctx.Err() == nil {
		f.noBookmarks.Store(true)
	}
}

// ask returns a version of the server that is no older than the call.
func (f *Freshness) ask(ctx context.Context) (uint64, error) {
	q := f.question()
	if q == nil {
		return 0, context.Canceled
	}
	select {
	case <-q.done:
		return q.version, q.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// question returns a question that has not been sent yet; nil if none will be any more.
func (f *Freshness) question() *question {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.next != nil || f.ended:
		return f.next
	case f.running != nil:
		f.next = &question{done: make(chan struct{})}
		return f.next
	}
	q := &question{done: make(chan struct{})}
	f.running = q
	f.work.Go(func() { f.send(q) })
	return q
}

// send sends a question, and then the one that has been asked meanwhile.
func (f *Freshness) send(q *question) {
	for q != nil {
		q.version, q.err = f.list()
		close(q.done)
		f.mu.Lock()
		q = f.next
		f.running, f.next = q, nil
		f.mu.Unlock()
	}
}

func (f *Freshness) list() (uint64, error) {
	ctx, cancel := context.WithTimeout(f.ctx, AskPatience)
	defer cancel()
	result, err := f.source.List(ctx, source.ListOptions[*codec.Raw]{Limit: 1}, func(*codec.Raw) error { return nil })
	if err != nil {
		return 0, err
	}
	return protocol.ParseVersion(result.ResourceVersion)
}

// shared runs a function once for all who want it run now.
type shared struct {
	mu      sync.Mutex // guards running
	running chan struct{}
}

// do runs f, or waits for the run in progress. start runs a function in the background, unless it returns false.
func (s *shared) do(ctx context.Context, start func(func()) bool, f func()) {
	s.mu.Lock()
	done := s.running
	if done == nil {
		done = make(chan struct{})
		if !start(func() { s.run(f, done) }) {
			s.mu.Unlock()
			return
		}
		s.running = done
	}
	s.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func (s *shared) run(f func(), done chan struct{}) {
	f()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = nil
	close(done)
}
