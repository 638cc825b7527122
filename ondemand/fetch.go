package ondemand

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// The delays between requests for an object of which the server has only an older state.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// maxUnconfirmed is how often a server may say that there is no object, and fail to answer the list that would confirm
// it, until it is believed.
const maxUnconfirmed = 5

var errBehind = errors.New("the server is behind")

// fetch requests the object of the metadata until the server has it in that version or a newer one.
func (r *Reader[T]) fetch(ctx context.Context, m *metav1.PartialObjectMetadata) (*body[T], error) {
	key, version := object.KeyOf(m), m.ResourceVersion
	var unknown error // why it could not be confirmed that the object is gone
	unconfirmed := 0
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		if err := r.pause.wait(ctx); err != nil {
			return nil, err
		}
		// With a version, the server may answer from its cache, but not with less.
		obj, err := r.source.Get(ctx, key, version)
		var b *body[T]
		switch {
		case version != "" && (apierrors.IsNotFound(err) || isAhead(err)):
			// A server that is behind may ignore the version. One that was restored from a backup may never have it.
			version = ""
			continue
		case apierrors.IsNotFound(err):
			absent := &absentError{error: err}
			b, unknown = r.confirm(ctx, m, absent)
			if unknown != nil && !errors.Is(unknown, errBehind) && !isAhead(unknown) {
				unconfirmed++
			}
			if b == nil && (unknown == nil || unconfirmed == maxUnconfirmed) {
				r.held.drop(key)
				return nil, absent
			}
			r.pause.after(unknown)
		case err != nil && r.pause.after(err):
			continue
		case err != nil:
			return nil, err
		default:
			b = newBody(r.codec, obj)
		}
		if b != nil && b.fits(m) {
			r.held.put(key, b)
			return b, nil
		}
		m = r.newest(m) // the server may have been restored from a backup
		if err := sleep(ctx, delay); err != nil {
			return nil, fmt.Errorf("the server answers with a state of %s that is older than version %s, or without one: %w",
				key, m.ResourceVersion, errors.Join(err, unknown))
		}
		version = ""
	}
}

// absentError says that an object does not exist.
type absentError struct {
	error        // the server's
	at    string // a version at which it does not; empty if the metadata has lost it
}

func (e *absentError) Unwrap() error { return e.error }

// fits reports whether the absence is not older than the metadata.
func (e *absentError) fits(m *metav1.PartialObjectMetadata) bool {
	return e.at == "" || !object.OlderResourceVersion(e.at, m.ResourceVersion)
}

// confirm finds out whether an object that the server did not find is gone, or whether the server only lacks its
// creation: the answer to a get has no version if there is no object, but the metadata has one, and so has a list. It
// returns the object if there is one, nothing if it is gone, and otherwise an error: it is to be asked again.
func (r *Reader[T]) confirm(ctx context.Context, m *metav1.PartialObjectMetadata, absent *absentError) (b *body[T], err error) {
	key := object.KeyOf(m)
	if _, ok := r.metadata.Get(key); !ok {
		return nil, nil
	}
	scope := r.scope // without selectors: an object that they do not select any more has not ceased to exist
	scope.Namespace, scope.Labels, scope.Fields = key.Namespace, "", ""
	src, err := r.newSource(scope)
	if err != nil {
		return nil, err
	}
	list, err := src.List(ctx, source.ListOptions[T]{
		ResourceVersion: m.ResourceVersion, ResourceVersionMatch: string(metav1.ResourceVersionMatchNotOlderThan),
		Only: key, NoSharing: true,
	}, func(obj T) error {
		if object.KeyOf(obj) == key {
			b = newBody(r.codec, obj)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if absent.at = list.ResourceVersion; b == nil && !absent.fits(m) {
		return nil, fmt.Errorf("%w: it lists nothing under the name at version %s", errBehind, absent.at)
	}
	return b, nil
}

// isAhead reports whether the server has not reached the version that was asked for.
func isAhead(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// sleep waits, and returns the cause of ctx's end if that comes first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pause keeps requests from being sent for as long as the server has asked for.
type pause struct {
	mu    sync.Mutex
	until time.Time
}

// after reports whether the error asks for a retry, and sets the pause.
func (p *pause) after(err error) bool {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	switch {
	case ok && seconds > 0:
	case apierrors.IsTooManyRequests(err) || ok:
		seconds = 1
	default:
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(time.Duration(seconds) * time.Second); until.After(p.until) {
		p.until = until
	}
	return true
}

func (p *pause) wait(ctx context.Context) error {
	for {
		p.mu.Lock()
		left := time.Until(p.until)
		p.mu.Unlock()
		if left <= 0 {
			return nil
		}
		if err := sleep(ctx, left); err != nil {
			return fmt.Errorf("the server has asked to wait: %w", err)
		}
	}
}

// flights are the requests under way, at most one for each object.
type flights[T object.Object] struct {
	life    context.Context // within which all requests are
	end     context.CancelCauseFunc
	mu      sync.Mutex
	running map[object.Key]*flight[T]
	all     sync.WaitGroup // nothing is added once life has ended
}

// flight is one request. It is canceled when nobody waits for it any more.
type flight[T object.Object] struct {
	waiting int // guarded by flights.mu
	cancel  context.CancelFunc
	done    chan struct{}
	body    *body[T]
	err     error
}

// fetcher requests a body.
type fetcher[T object.Object] func(context.Context) (*body[T], error)

// join waits for the request for the object that is under way, or makes it. joined is set if it was under way. The end
// of ctx ends only this wait.
func (fs *flights[T]) join(ctx context.Context, key object.Key, fetch fetcher[T]) (b *body[T], joined bool, err error) {
	f, joined, err := fs.start(ctx, key, fetch)
	if err != nil {
		return nil, false, fmt.Errorf("read %s: %w", key, err)
	}
	select {
	case <-f.done:
		return f.body, joined, f.err
	case <-ctx.Done():
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		f.cancel()
		if fs.running[key] == f {
			delete(fs.running, key) // the next one must not join a canceled request
		}
	}
	return nil, false, fmt.Errorf("read %s: %w", key, context.Cause(ctx))
}

// start returns the request that is under way, or begins it.
func (fs *flights[T]) start(ctx context.Context, key object.Key, fetch fetcher[T]) (f *flight[T], joined bool, err error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.life.Err() != nil {
		return nil, false, context.Cause(fs.life)
	}
	if f := fs.running[key]; f != nil {
		f.waiting++
		return f, true, nil
	}
	f = &flight[T]{waiting: 1, done: make(chan struct{})}
	ctx, f.cancel = fs.within(context.WithoutCancel(ctx))
	if fs.running == nil {
		fs.running = make(map[object.Key]*flight[T])
	}
	fs.running[key] = f
	fs.all.Go(func() {
		defer close(f.done)
		defer f.cancel()
		defer fs.forget(key, f)
		f.run(ctx, key, fetch)
	})
	return f, false, nil
}

// forget lets the next caller make another request for the object.
func (fs *flights[T]) forget(key object.Key, f *flight[T]) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.running[key] == f {
		delete(fs.running, key)
	}
}

// run calls fetch. What goes wrong in the program's transport, such as a panic, is an error for those who wait.
func (f *flight[T]) run(ctx context.Context, key object.Key, fetch fetcher[T]) {
	f.err = fmt.Errorf("read %s: the transport called runtime.Goexit", key) // unless fetch returns
	defer func() {
		if value := recover(); value != nil {
			f.err = fmt.Errorf("read %s: panic: %v\n\n%s", key, value, debug.Stack())
		}
	}()
	f.body, f.err = fetch(ctx)
	if stopped := context.Cause(ctx); f.err != nil && errors.Is(stopped, tidings.ErrStopped) {
		f.err = fmt.Errorf("read %s: %w", key, stopped)
	}
}

// within returns a context that also ends when the flights are stopped. Its owner calls cancel.
func (fs *flights[T]) within(ctx context.Context) (within context.Context, cancel context.CancelFunc) {
	within, end := context.WithCancelCause(ctx)
	forget := context.AfterFunc(fs.life, func() { end(context.Cause(fs.life)) })
	return within, func() {
		forget()
		end(nil)
	}
}

// stop cancels the requests under way and waits until they have ended.
func (fs *flights[T]) stop() {
	fs.mu.Lock()
	fs.end(tidings.ErrStopped)
	fs.mu.Unlock()
	fs.all.Wait()
}
