package usercode

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// maxReports is how many reports may wait for the user's function before further ones are dropped.
const maxReports = 64

// Reporter calls the user's OnError and OnMutation, one at a time and in order, on its own
// goroutine, so that they may do anything with the informer.
type Reporter struct {
	pending chan func()
	log     *ThrottledLog
	caller  Caller
	quit    chan struct{} // closed when nothing will be reported any more
	done    chan struct{} // closed when the goroutine has ended
	dropped atomic.Uint64

	mu      sync.Mutex
	flushes []chan struct{} // closed when nothing is pending
}

// NewReporter returns a reporter that logs what goes wrong. Its owner starts Run on a goroutine.
func NewReporter(log *ThrottledLog) *Reporter {
	return &Reporter{
		pending: make(chan func(), maxReports),
		log:     log,
		quit:    make(chan struct{}),
		done:    make(chan struct{}),
	}
}

// Report enqueues a call. It never waits: if the function is too slow, reports are dropped and counted.
func (r *Reporter) Report(call func()) {
	select {
	case r.pending <- call:
	default:
		r.dropped.Add(1)
		r.log.Log(slog.LevelWarn, "OnError or OnMutation is too slow; reports are dropped", "dropped", r.dropped.Load())
	}
}

// Dropped returns how many calls were dropped.
func (r *Reporter) Dropped() uint64 { return r.dropped.Load() }

// Ending returns the reporter's goroutine, which counts as ended when everything reported so far
// has been delivered.
func (r *Reporter) Ending() Ending { return Ending{Done: r.flushed(), By: &r.caller} }

// Run makes the calls until end, and then the remaining ones. If a call ends the goroutine with
// runtime.Goexit, another one goes on.
func (r *Reporter) Run() {
	returned := false
	defer func() {
		if !returned {
			r.log.Log(slog.LevelError, "OnError or OnMutation called runtime.Goexit", "stack", string(debug.Stack()))
			go r.Run()
			return
		}
		close(r.done)
		r.flush()
	}()
	r.caller.Enter()
	defer r.caller.Leave()
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

// End waits until all calls have been made. Nothing may be reported afterwards.
func (r *Reporter) End() {
	close(r.quit)
	<-r.done
}

func (r *Reporter) drain() {
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
func (r *Reporter) flushed() <-chan struct{} {
	flushed := make(chan struct{})
	r.mu.Lock()
	r.flushes = append(r.flushes, flushed)
	r.mu.Unlock()
	select {
	case r.pending <- func() {}: // wakes the goroutine, in case it is idle
	default:
	}
	if Closed(r.done) {
		return r.done
	}
	return flushed
}

// flush closes the channels of flushed. Nothing is pending.
func (r *Reporter) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, flushed := range r.flushes {
		close(flushed)
	}
	r.flushes = nil
}

func (r *Reporter) call(call func()) {
	defer func() {
		if reason := recover(); reason != nil {
			r.log.Log(slog.LevelError, "OnError or OnMutation panicked",
				"panic", fmt.Sprint(reason), "stack", string(debug.Stack()))
		}
	}()
	call()
}
