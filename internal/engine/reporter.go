package engine

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// maxReports is how many reports may wait for the user's function before further ones are dropped.
const maxReports = 64

// reporter calls the user's OnError and OnMutation, one at a time and in order, on its own goroutine, so that they may do anything
// with the informer.
type reporter struct {
	pending chan func()
	log     *throttled
	caller  caller
	quit    chan struct{} // closed when nothing will be reported any more
	done    chan struct{} // closed when the goroutine has ended
	dropped atomic.Uint64

	mu      sync.Mutex
	flushes []chan struct{} // closed when nothing is pending
}

func newReporter(log *throttled) *reporter {
	return &reporter{pending: make(chan func(), maxReports), log: log, quit: make(chan struct{}), done: make(chan struct{})}
}

// report enqueues a call. It never waits: if the function is too slow, reports are dropped and counted.
func (r *reporter) report(call func()) {
	select {
	case r.pending <- call:
	default:
		r.dropped.Add(1)
		r.log.log(slog.LevelWarn, "OnError or OnMutation is too slow; reports are dropped", "dropped", r.dropped.Load())
	}
}

// run makes the calls until end, and then the remaining ones. If a call ends the goroutine with runtime.Goexit, another one goes on.
func (r *reporter) run() {
	returned := false
	defer func() {
		if !returned {
			r.log.log(slog.LevelError, "OnError or OnMutation called runtime.Goexit", "stack", string(debug.Stack()))
			go r.run()
			return
		}
		close(r.done)
		r.flush()
	}()
	r.caller.enter()
	defer r.caller.leave()
	for {
		if len(r.pending) == 0 {
			r.flush()
		}
		select {
		case call := <-r.pending:
			r.call(call)
		case <-r.quit:
			r.drain()
			returned = true
			return
		}
	}
}

// end waits until all calls have been made. Nothing may be reported afterwards.
func (r *reporter) end() {
	close(r.quit)
	<-r.done
}

func (r *reporter) drain() {
	for {
		select {
		case call := <-r.pending:
			r.call(call)
		default:
			return
		}
	}
}

// flushed returns a channel that is closed when everything reported so far has been delivered.
func (r *reporter) flushed() <-chan struct{} {
	flushed := make(chan struct{})
	r.mu.Lock()
	r.flushes = append(r.flushes, flushed)
	r.mu.Unlock()
	select {
	case r.pending <- func() {}: // wakes the goroutine, in case it is idle
	default:
	}
	if closed(r.done) {
		return r.done
	}
	return flushed
}

// flush closes the channels of flushed. Nothing is pending.
func (r *reporter) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, flushed := range r.flushes {
		close(flushed)
	}
	r.flushes = nil
}

func (r *reporter) call(call func()) {
	defer func() {
		if reason := recover(); reason != nil {
			r.log.log(slog.LevelError, "OnError or OnMutation panicked", "panic", fmt.Sprint(reason), "stack", string(debug.Stack()))
		}
	}()
	call()
}
