package ondemand

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/object"
)

// The delays between requests for an object of which the server has only an older state.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// fetch requests the object of the metadata until the server has it in that version or a newer one.
func (r *Reader[T]) fetch(ctx context.Context, m *metav1.PartialObjectMetadata) (*body[T], error) {
	key, version := object.KeyOf(m), m.ResourceVersion
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		if err := r.pause.wait(ctx); err != nil {
			return nil, err
		}
		// With a version, the server may answer from its cache, but not with less.
		obj, err := r.source.Get(ctx, key, version)
		switch {
		case apierrors.IsNotFound(err) && version != "":
			version = "" // a server that is behind may ignore the version
			continue
		case apierrors.IsNotFound(err):
			r.held.drop(key)
			return nil, err
		case err != nil:
			if !r.pause.after(err) {
				return nil, err
			}
			continue
		}
		b := newBody(r.codec, obj)
		if b.fits(m) {
			r.held.put(key, b)
			return b, nil
		}
		if current, ok := r.metadata.Get(key); ok {
			m = current // the server may have been restored from a backup
		}
		if err := sleep(ctx, delay); err != nil {
			return nil, fmt.Errorf("the server answers with version %s of %s, which is older than %s: %w", b.version, key, m.ResourceVersion, err)
		}
		version = ""
	}
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
	mu      sync.Mutex
	running map[object.Key]*flight[T]
	all     sync.WaitGroup
}

// flight is one request. It is canceled when nobody waits for it any more.
type flight[T object.Object] struct {
	waiting int // guarded by flights.mu
	cancel  context.CancelFunc
	done    chan struct{}
	body    *body[T]
	err     error
}

// join waits for the request for the object that is under way, or makes it. The end of ctx ends only this wait.
func (fs *flights[T]) join(ctx context.Context, key object.Key, fetch func(context.Context) (*body[T], error)) (*body[T], error) {
	f := fs.start(ctx, key, fetch)
	select {
	case <-f.done:
		return f.body, f.err
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
	return nil, fmt.Errorf("read %s: %w", key, context.Cause(ctx))
}

func (fs *flights[T]) start(ctx context.Context, key object.Key, fetch func(context.Context) (*body[T], error)) *flight[T] {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.running[key]; f != nil {
		f.waiting++
		return f
	}
	f := &flight[T]{waiting: 1, done: make(chan struct{})}
	ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if fs.running == nil {
		fs.running = make(map[object.Key]*flight[T])
	}
	fs.running[key] = f
	fs.all.Go(func() {
		defer close(f.done)
		defer f.cancel()
		f.body, f.err = fetch(ctx)
		fs.mu.Lock()
		defer fs.mu.Unlock()
		if fs.running[key] == f {
			delete(fs.running, key)
		}
	})
	return f
}

// stop cancels the requests under way and waits until they have ended.
func (fs *flights[T]) stop() {
	fs.mu.Lock()
	for _, f := range fs.running {
		f.cancel()
	}
	fs.mu.Unlock()
	fs.all.Wait()
}
