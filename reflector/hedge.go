package reflector

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/internal/assert"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

const (
	// hedgeAfter is how long a WatchList may bring nothing before the first page of a list is requested beside it.
	hedgeAfter = 2 * time.Second
	// compareAfter is the age from which a WatchList that does bring objects is compared with lists.
	compareAfter = 4 * time.Second
	// hedgeTick is how often that is looked at.
	hedgeTick = 250 * time.Millisecond
	// listsFasterBy is how much faster than the WatchList a list has to be to take its place: it
	// begins at the beginning.
	listsFasterBy = 2
)

// errListFaster ends a WatchList in whose place a list goes on.
var errListFaster = errors.New("a list is faster")

// hedge requests the first page of a list beside a WatchList that is slow or silent: some servers
// are slower at WatchLists than at lists, some proxies hold back what they bring, and some servers
// do not know what was asked for. The faster one goes on, the other one is dropped. So at most one
// page is in memory in addition, and the rest of the list is gathered like that of any other.
type hedge[T object.Object] struct {
	ctx    context.Context // ends with the WatchList
	cancel context.CancelFunc
	// decided is set by the one that is the first to win: the WatchList when it is complete, or the
	// list, whose first page is then in page.
	decided atomic.Bool
	page    *firstPage[T]
}

// firstPage is the first page of a list.
type firstPage[T object.Object] struct {
	items   []T
	skipped []*source.ObjectError
	limit   int64
	result  source.ListResult
}

func (p *firstPage[T]) len() int { return len(p.items) + len(p.skipped) }

// startHedge begins to look at how fast the WatchList is. It is to be called before the WatchList
// is requested, whose response may be slow too.
func (r *Reflector[T]) startHedge(w *watching[T]) *hedge[T] {
	h := new(hedge[T])
	h.ctx, h.cancel = context.WithCancel(w.ctx)
	r.beside.start(func() { r.hedgeBeside(w, h) })
	return h
}

// hedgeBeside runs beside a WatchList.
func (r *Reflector[T]) hedgeBeside(w *watching[T], h *hedge[T]) {
	ticker := time.NewTicker(hedgeTick)
	defer ticker.Stop()
	var count int64
	begun := time.Now()
	since, silence, compareAt := begun, hedgeAfter, begun.Add(compareAfter)
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		if n := r.status.gathered.Load(); n != count {
			count, since = n, now
		}
		silent := now.Sub(since) >= silence
		if !silent && now.Before(compareAt) {
			continue
		}
		page, err := r.firstPage(h.ctx)
		rival := r.status.gathered.Load() - count
		if !silent { // in a short time it may have brought nothing by chance
			rival = max(rival, int64(float64(count)*float64(time.Since(now))/float64(now.Sub(begun))))
		}
		if err == nil && h.listWins(page, rival) {
			w.cancel(errListFaster)
			return
		}
		if err != nil && !reasonOf(err).transient() {
			return // lists are not possible
		}
		now = time.Now()
		since, silence, compareAt = now, 2*silence, now.Add(now.Sub(begun))
	}
}

// listWins decides whether a list goes on in place of the WatchList, which brings rival objects in
// the time of the request for the page.
func (h *hedge[T]) listWins(page *firstPage[T], rival int64) bool {
	if page.result.Continue != "" && int64(page.len()) < listsFasterBy*rival {
		return false
	}
	h.page = page
	return h.decided.CompareAndSwap(false, true)
}

// watchListWins reports whether the WatchList, which is complete, is still wanted.
func (h *hedge[T]) watchListWins() bool {
	defer h.cancel()
	return h.decided.CompareAndSwap(false, true)
}

// firstPage requests the first page of the most recent state.
func (r *Reflector[T]) firstPage(ctx context.Context) (*firstPage[T], error) {
	ctx, cancel := context.WithTimeout(ctx, r.opts.StallTimeout)
	defer cancel()
	page := &firstPage[T]{limit: r.opts.PageSize}
	opts := source.ListOptions[T]{
		Limit: page.limit, NoSharing: r.opts.NoSharing, Skip: func(e *source.ObjectError) { page.skipped = append(page.skipped, e) },
	}
	result, err := r.listPlainly(ctx, opts, func(o T) error {
		page.items = append(page.items, o)
		return nil
	})
	page.result = result
	return page, err
}

// continueList goes on with a list of which there is the first page, in place of the WatchList.
func (r *Reflector[T]) continueList(page *firstPage[T]) {
	assert.Reached("a list overtakes a WatchList")
	r.closeStream()
	r.list.restart()
	r.list.recent = true
	r.listMethod.tryLists, r.listMethod.faster = true, true
	r.status.paged.Store(true)
	r.noteResponse(nil)
	r.enter(Listing)
	for _, o := range page.items {
		r.list.add(intake.Received[T]{Object: o})
	}
	for _, e := range page.skipped {
		r.skipItem(e)
	}
	r.status.gathered.Store(int64(r.list.len()))
	opts := source.ListOptions[T]{Limit: page.limit}
	r.pageRead(opts, 0, r.list.pageDone(page.len(), page.limit, page.result))
}
