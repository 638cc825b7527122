package reflector

import (
	"context"
	"sync"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// beside runs requests beside an open stream, on goroutines of their own. Nothing that the
// reflector's goroutine owns may be used there. They end soon after the stream does; the reflector
// waits for them when it stops.
type beside struct {
	mu      sync.Mutex
	running sync.WaitGroup
	stopped bool
}

// begin reports whether something may run: the reflector has not stopped. If so, the caller calls
// running.Done at its end.
func (b *beside) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return false
	}
	b.running.Add(1)
	return true
}

// run calls f, unless the reflector has stopped.
func (b *beside) run(f func()) {
	if b.begin() {
		defer b.running.Done()
		f()
	}
}

// start is run on a new goroutine.
func (b *beside) start(f func()) {
	if b.begin() {
		go func() {
			defer b.running.Done()
			f()
		}()
	}
}

// stop prevents further calls and waits for running ones.
func (b *beside) stop() {
	b.mu.Lock()
	b.stopped = true
	b.mu.Unlock()
	b.running.Wait()
}

// confirmBeside checks, while a watch is open that began without a check and has brought nothing,
// whether the server's history reaches the version at which it began. If that is not certain, the
// watch is ended.
func (r *Reflector[T]) confirmBeside(w *watching[T]) {
	if w.historyConfirmed.Load() || w.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, r.opts.StallTimeout)
	defer cancel()
	opts := source.ListOptions[T]{Limit: 1, NoSharing: r.opts.NoSharing, Skip: func(*source.ObjectError) {}}
	result, err := r.listPlainly(ctx, opts, func(T) error { return nil })
	switch {
	case w.ctx.Err() != nil:
	case err != nil:
		w.cancel(unconfirmedError{err: err})
	case object.OlderResourceVersion(result.ResourceVersion, w.from):
		w.cancel(unconfirmedError{version: result.ResourceVersion})
	default:
		w.historyConfirmed.Store(true)
		r.noteContact()
		r.status.noteServerVersion(result.ResourceVersion)
	}
}
