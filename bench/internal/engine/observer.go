package engine

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

// Observer gets the notifications of the measured handler. It does as little as it can. Its methods may be called
// from several goroutines, except that calls of Await and Record must not overlap.
type Observer struct {
	initial int64 // number of objects in the initial list
	synced  chan struct{}
	seen    atomic.Int64
	awaited atomic.Pointer[awaited]
	record  atomic.Pointer[recording]
}

// awaited is a notification: the one of a version or, if count is set, the one with that number.
type awaited struct {
	version string
	count   int64
	done    chan struct{}
}

func (a *awaited) is(seen int64, version string) bool {
	if a.count > 0 {
		return seen == a.count
	}
	return version == a.version
}

// recording holds the arrival time of each version from first on.
type recording struct {
	first  uint64
	at     []int64
	newest atomic.Uint64 // the version that arrived last
}

// NewObserver returns an observer for an initial list of this many objects.
func NewObserver(initial int) *Observer {
	return &Observer{initial: int64(initial), synced: make(chan struct{})}
}

// See records a notification for an object with this resource version.
func (o *Observer) See(version string) {
	if r := o.record.Load(); r != nil {
		r.note(version)
	}
	seen := o.seen.Add(1)
	if seen == o.initial {
		close(o.synced)
	}
	if a := o.awaited.Load(); a != nil && a.is(seen, version) && o.awaited.CompareAndSwap(a, nil) {
		close(a.done)
	}
}

// Seen returns the number of notifications so far.
func (o *Observer) Seen() int64 { return o.seen.Load() }

// WaitInitial waits until there have been as many notifications as the initial list has objects.
func (o *Observer) WaitInitial(ctx context.Context) error {
	return o.wait(ctx, o.synced, "the initial list")
}

// Expect makes the observer look for a version. The returned function waits for it.
func (o *Observer) Expect(version uint64) (wait func(context.Context) error) {
	a := &awaited{version: strconv.FormatUint(version, 10), done: make(chan struct{})}
	o.awaited.Store(a)
	return func(ctx context.Context) error { return o.wait(ctx, a.done, "version "+a.version) }
}

// ExpectMore is like Expect, for n more notifications, if the handler gets no versions.
func (o *Observer) ExpectMore(n int) (wait func(context.Context) error) {
	a := &awaited{count: o.seen.Load() + int64(n), done: make(chan struct{})}
	o.awaited.Store(a)
	return func(ctx context.Context) error { return o.wait(ctx, a.done, fmt.Sprint(n, " notifications")) }
}

func (o *Observer) wait(ctx context.Context, done <-chan struct{}, what string) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s, after %d notifications: %w", what, o.Seen(), context.Cause(ctx))
	}
}

// Record records the arrival times of n versions, beginning with first, until the returned function is called. That
// returns them as Unix times in nanoseconds, 0 for versions that have not arrived.
func (o *Observer) Record(first uint64, n int) (stop func() []int64) {
	r := &recording{first: first, at: make([]int64, n)}
	o.record.Store(r)
	return func() []int64 {
		o.record.Store(nil)
		return r.at
	}
}

// Newest returns the version that arrived last since Record was called, or 0.
func (o *Observer) Newest() uint64 {
	if r := o.record.Load(); r != nil {
		return r.newest.Load()
	}
	return 0
}

func (r *recording) note(version string) {
	now := time.Now().UnixNano()
	v, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return
	}
	r.newest.Store(v)
	if v >= r.first && v-r.first < uint64(len(r.at)) {
		r.at[v-r.first] = now
	}
}
