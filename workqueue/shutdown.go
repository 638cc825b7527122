package workqueue

import "context"

// ShutDown ends the queue at once: no item is accepted any more, what waits or is delayed is dropped, and Get
// returns ErrShutDown. It waits for the items that are in work to be done, until the context ends; then it
// returns the context's cause. It may be called several times, also to cut a ShutDownWithDrain short.
//
// A worker that calls it between Get and Done waits for itself.
func (q *Queue[T]) ShutDown(ctx context.Context) error {
	return q.shutDown(ctx, true)
}

// ShutDownWithDrain ends the queue in peace: no item is accepted any more and what is delayed is dropped, but
// workers still get what waits. It waits until all of it is done, or until the context ends; then it returns the
// context's cause, and the draining goes on. It may be called several times; after a ShutDown there is nothing
// left to drain.
//
// Workers have to go on until Get returns ErrShutDown: an item that was added while in work waits again after
// its Done, when the other workers may have gone.
//
// A worker that calls it between Get and Done waits for itself.
func (q *Queue[T]) ShutDownWithDrain(ctx context.Context) error {
	return q.shutDown(ctx, false)
}

// ShuttingDown reports whether a shutdown was asked for: the queue accepts nothing then.
func (q *Queue[T]) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closing
}

func (q *Queue[T]) shutDown(ctx context.Context, drop bool) error {
	q.mu.Lock()
	q.close()
	if drop {
		q.dropWaiting()
	}
	q.checkDrained()
	q.mu.Unlock()
	select {
	case <-q.drained:
		return nil
	default:
	}
	select {
	case <-q.drained:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// close makes the queue accept nothing more, drops what is delayed, and lets go the getters that wait: as some
// do, nothing else waits.
func (q *Queue[T]) close() {
	if q.closing {
		return
	}
	q.closing = true
	q.dropDelayed()
	for _, g := range q.getters {
		g.woken <- struct{}{}
	}
	q.getters = nil
}

// dropWaiting empties the schedule, and forgets the adds of items in work.
func (q *Queue[T]) dropWaiting() {
	for e := q.schedule.pop(); e != nil; e = q.schedule.pop() {
		q.rest(e)
	}
	for e := q.working.first; e != nil; e = e.next {
		e.dirty = false
	}
}

// checkDrained closes q.drained when nothing waits, nobody works and no timer is on its way.
func (q *Queue[T]) checkDrained() {
	if q.closing && !q.isDrained && q.working.len == 0 && q.timer.pending == 0 && q.schedule.len() == 0 {
		q.isDrained = true
		close(q.drained)
	}
}
