package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/object"
)

// WithWrites returns a context for writes outside of a reconcile, such as in a webhook: writes made with it through
// a transport of TrackWrites, and those reported to Wrote and Deleted with it, are remembered for WaitForWrites.
// They do not delay any reconcile.
func (c *Controller) WithWrites(ctx context.Context) context.Context {
	// No object has such a name.
	key := object.Key{Name: fmt.Sprintf("/%d", lastOutside.Add(1))}
	return withRecorder(ctx, c.gate, key)
}

var lastOutside atomic.Uint64

// WaitForWrites waits until the controller's caches have seen the writes made so far with a context of WithWrites,
// or for the key of a reconcile with its context. In a reconcile that is rarely needed, because the next one waits
// without occupying a worker.
//
// If ctx ends first, or Options.MaxGateWait has passed since the last write, the error says which write is missing
// in which cache. It is an error if ctx is neither a reconcile's nor one of WithWrites.
func WaitForWrites(ctx context.Context) error {
	r := recorderOf(ctx)
	if r == nil {
		return errors.New("wait for writes: the context is neither that of a reconcile nor one of Controller.WithWrites")
	}
	if err := r.wait(ctx); err != nil {
		return fmt.Errorf("wait for writes: %w", err)
	}
	return nil
}

// wait waits until the keys' writes have been seen. It makes the look-ups that they need.
func (g *gate[K]) wait(ctx context.Context, keys ...K) error {
	g.watched.Add(1)
	defer g.watched.Add(-1)
	var lookups sync.WaitGroup
	defer lookups.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		changed := *g.waiters.Load()
		missing, until := g.missing(keys)
		if missing == nil {
			return nil
		}
		g.startLookUps(ctx, &lookups, keys...)
		left := time.Until(until)
		if left <= 0 {
			return fmt.Errorf("after %v a cache has not seen %s", g.maxWait, missing)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", missing, context.Cause(ctx))
		case <-changed:
		case <-time.After(min(left, recheckEvery)):
		}
	}
}

// missing returns one of the keys' writes that a cache has not seen, and until when to wait for it. It forgets keys of
// which all caches have seen everything.
func (g *gate[K]) missing(keys []K) (*expectation, time.Time) {
	caches := g.caches()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		p := g.pending[key]
		if p == nil {
			continue
		}
		if missing := g.unseen(p, caches); missing != nil {
			return missing, p.until
		}
		if _, blocked := g.blocked[key]; !blocked && len(p.all) == 0 {
			delete(g.pending, key)
		}
	}
	return nil, time.Time{}
}
