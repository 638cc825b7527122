package reflector

import (
	"context"
	"sync"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// beside runs requests beside an open stream, on goroutines of their own. Nothing that the reflector's goroutine owns may be used there. They end
// soon after the stream does; the reflector waits for them when it stops.
type beside struct {
	mu      sync.Mutex
	running sync.WaitGroup
	stopped bool
}

// run calls f, unless the reflector has stopped.
func (b *beside) run(f func()) {
	b.mu.Lock()
	if b.stopped {
		b.mu.Unlock()
		return
	}
	b.running.Add(1)
	b.mu.Unlock()
	defer b.running.Done()
	f()
}

// stop prevents further calls and waits for running ones.
func (b *beside) stop() {
	b.mu.Lock()
	b.stopped = true
	b.mu.Unlock()
	b.running.Wait()
}

// confirmBeside checks, while a watch is open that began without a check and has brought nothing, whether the server's history reaches the
// version at which it began. If that is not certain, the watch is ended.
func (r *Reflector[T]) confirmBeside(w *watching[T]) {
	if w.historyConfirmed.Load() || w.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, r.opts.StallTimeout)
	defer cancel()
	opts := source.ListOptions[T]{Limit: 1, NoSharing: r.opts.NoSharing, Skip: func(*source.ObjectError) {}}
	result, err := r.callList(ctx, opts, func(T) error { return nil })
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
