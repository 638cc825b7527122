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
	// maxHedges is how many reflectors of an API group request such a page at a time. A server may be slow because it
	// is busy: if all did so at once, its WatchLists and these pages would be slower still. One that is not busy
	// answers one after the other soon enough.
	maxHedges = 1
	// hedgeTurn is after how long the next one may nevertheless, so that a page that does not come holds up nobody.
	hedgeTurn = 10 * time.Second
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
	p := beginPace(time.Now())
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-ticker.C:
		}
		_, due := p.look(r.status.gathered.Load(), time.Now())
		if due && !r.hedgeOnce(w, h, &p) {
			return
		}
	}
}

// hedgeOnce requests the first page once it is this reflector's turn, and reports whether to go on looking.
func (r *Reflector[T]) hedgeOnce(w *watching[T], h *hedge[T], p *pace) bool {
	leave, ok := r.opts.Peers.enterHedge(h.ctx, r.opts.Resource.Group)
	if !ok {
		return false
	}
	defer leave()
	asked := time.Now()
	silent, due := p.look(r.status.gathered.Load(), asked)
	if !due { // it has brought something in the meantime
		return true
	}
	page, err := r.firstPage(h.ctx)
	rival := r.status.gathered.Load() - p.count
	if !silent { // in a short time it may have brought nothing by chance
		rival = max(rival, int64(float64(p.count)*float64(time.Since(asked))/float64(asked.Sub(p.begun))))
	}
	switch {
	case err == nil && h.listWins(page, rival):
		w.cancel(errListFaster)
		return false
	case err != nil && !reasonOf(err).transient():
		return false // lists are not possible
	}
	p.wait(time.Now())
	return true
}

// pace is how a WatchList gets on.
type pace struct {
	begun     time.Time
	count     int64     // what it has brought
	since     time.Time // when count last changed, or when it was last hedged
	silence   time.Duration
	compareAt time.Time
}

func beginPace(now time.Time) pace {
	return pace{begun: now, since: now, silence: hedgeAfter, compareAt: now.Add(compareAfter)}
}

// look reports whether the WatchList is silent, and whether a list is to be compared with it, for that reason or
// because it takes long.
func (p *pace) look(count int64, now time.Time) (silent, due bool) {
	if count != p.count {
		p.count, p.since = count, now
	}
	silent = now.Sub(p.since) >= p.silence
	return silent, silent || !now.Before(p.compareAt)
}

// wait doubles the time until the next comparison.
func (p *pace) wait(now time.Time) {
	p.since, p.silence, p.compareAt = now, 2*p.silence, now.Add(now.Sub(p.begun))
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
