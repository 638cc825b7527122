package reflector

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/tidings/tidings/internal/assert"
	"github.com/tidings/tidings/source"
)

const (
	// watchListAgain is the interval for retrying WatchList with a server that did not support it.
	// Relists are rare, so retrying costs next to nothing, and the server may have been upgraded.
	watchListAgain = time.Hour
	// initialEventsGrace is how long the bookmark that ends the initial events may take after the
	// first event that is not an initial one. Servers that support WatchList send it at that
	// moment; a server that ignores the request for initial events never does.
	initialEventsGrace = 30 * time.Second
	// maxInitialEventsTime limits the time for all initial events, in units of StallTimeout.
	maxInitialEventsTime = 10
)

var (
	errUnfinished  = errors.New("the server closed the watch before it had sent all current objects")
	errUnversioned = errors.New("the server ended the current objects without saying which resource version they are at")
	errEndless     = errors.New("the server keeps the watch open but does not say that it has sent all current objects")
)

// listMethod tracks how the server can be asked for the collection.
type listMethod struct {
	// noWatchListUntil is when WatchList is tried again after it was found to be unsupported.
	noWatchListUntil time.Time
	// next makes the next collection a list, because watches bring nothing.
	next bool
	// faster says that tryLists was set because a list was faster than a WatchList.
	faster bool
	// tryLists is set when a WatchList was rejected: if a list succeeds, WatchList is what the server does not support.
	tryLists bool
	// unfinished counts the consecutive WatchLists that ended before their initial events were complete.
	unfinished int
	// forbidden counts the consecutive lists that were forbidden.
	forbidden int
}

// watchListEvery is how often WatchList is tried as well, in lists, while both are forbidden.
// Usually the same permission is missing.
const watchListEvery = 4

// listFailed records that a list has failed.
func (m *listMethod) listFailed(reason Reason) {
	if reason != Forbidden {
		m.tryLists, m.faster, m.forbidden = false, false, 0
		return
	}
	m.forbidden++
	m.tryLists = m.tryLists && m.forbidden > triesInPlace && m.forbidden%watchListEvery != 0
}

// paged reports whether to use paged lists.
func (m *listMethod) paged(now time.Time) bool {
	return m.next || m.tryLists || now.Before(m.noWatchListUntil)
}

// fallBack switches to paged lists.
func (r *Reflector[T]) fallBack() {
	assert.Reached("lists replace the WatchList")
	until := time.Now().Add(watchListAgain)
	if r.listMethod.faster {
		r.opts.Peers.noteListsFaster(r.opts.Resource.Group, until)
	}
	r.listMethod = listMethod{noWatchListUntil: until}
	const message = "the server offers no WatchList, or is faster without; listing page by page"
	r.logTogether(slog.LevelDebug, message, message)
}

// watchList opens a watch that begins with the current objects, or gathers its next events.
func (r *Reflector[T]) watchList(ctx context.Context) {
	if r.stream == nil {
		if !r.admitRequest() {
			return
		}
		opts := source.WatchOptions[T]{SendInitialEvents: true}
		if r.knowsVersion() {
			opts.ResourceVersion = r.last
		}
		r.list.recent = opts.ResourceVersion == ""
		if err := r.openStream(ctx, opts); err != nil && ctx.Err() == nil {
			r.watchListFailed(err, false)
		}
		return
	}
	batch, err := r.read()
	r.gather(batch)
	r.release()
	switch {
	case r.phase == WatchListing && err == errListFaster:
		r.continueList(r.stream.hedge.page)
	case r.phase == Watching && err != nil:
		r.watchEnded(ctx, err)
	case r.phase == WatchListing && err != nil && ctx.Err() == nil:
		if err == errStalled && r.stream.live {
			err = errEndless
		}
		r.watchListFailed(err, true)
	}
}

// gather applies initial events up to the bookmark that ends them, and then hands the collection to the sink;
// the rest of the batch are changes.
func (r *Reflector[T]) gather(batch []event[T]) {
	if len(batch) == 0 {
		return
	}
	r.noteContact()
	objects := false
	for i := range batch {
		ev := &batch[i]
		r.noteReached(ev.ResourceVersion)
		switch ev.Type {
		case source.Bookmark:
			if ev.InitialEventsEnd {
				r.initialEventsEnd(ev.ResourceVersion, batch[i+1:])
				return
			}
			r.stream.markLive()
		case source.Added:
			objects = true
			r.list.apply(ev)
		case source.Modified, source.Deleted:
			r.stream.markLive()
			r.list.apply(ev)
		default:
			if err := r.skipInitial(ev.Event); err != nil {
				r.watchListFailed(err, true)
				return
			}
			objects = true
		}
	}
	r.status.gathered.Store(int64(r.list.len()))
	if objects {
		r.stream.extend(min(r.opts.StallTimeout, time.Until(r.stream.gatherDeadline)))
	}
}

// markLive records that the server has sent something other than an initial event.
func (w *watching[T]) markLive() {
	if w.live {
		return
	}
	w.live = true
	if by := time.Now().Add(initialEventsGrace); by.Before(w.gatherDeadline) {
		w.gatherDeadline = by
		w.extend(initialEventsGrace)
	}
}

// initialEventsEnd completes a WatchList, whose stream continues as an ordinary watch.
func (r *Reflector[T]) initialEventsEnd(version string, rest []event[T]) {
	if !r.stream.hedge.watchListWins() {
		return // the next read returns errListFaster
	}
	r.noteNumbering(version, r.list.newest)
	switch {
	case r.list.err != nil:
		r.watchListFailed(r.list.err, true)
	case isUnset(version) && (r.list.versioned || !isUnset(r.last)): // without any version it is like a list of a fake client
		r.watchListFailed(errUnversioned, true)
	case r.behind(version):
		r.closeStream()
		r.serverBehind(version, r.list.recent)
	case r.listContradicts(version):
	default:
		r.replace(version)
		r.stream.since, r.stream.silentSince, r.stream.from = time.Now(), time.Now(), version
		r.stream.extend(r.watchTimeLeft())
		r.deliver(rest)
	}
}

// watchListFailed picks the next phase after a failed WatchList; begun says that the server had accepted it.
func (r *Reflector[T]) watchListFailed(err error, begun bool) {
	r.closeStream()
	if begun && errors.Is(err, io.EOF) { // before that, the connection broke
		err = errUnfinished
	}
	reason := reasonOf(err)
	switch {
	case !begun && refused(err), errors.Is(err, errors.ErrUnsupported):
		r.listMethod.tryLists = true
		r.enter(Starting)
		return
	case r.askForMostRecent(reason):
		r.enter(Starting)
		return
	case begun, err == errStalled, !unanswered(err, reason) && (reason == Server || reason == Timeout || reason == Protocol):
		// Do not retry a silent one: fakes and old proxies accept the request and send no initial events.
		if r.listMethod.unfinished++; r.listMethod.unfinished >= triesInPlace || err == errStalled || err == errEndless {
			r.fallBack()
		}
	}
	r.fail(err, Starting)
}

// refused reports whether a WatchList failed in a way in which a list may not: because it is not
// supported, or because only lists are permitted.
func refused(err error) bool {
	if errors.Is(err, errors.ErrUnsupported) {
		return true
	}
	switch reasonOf(err) {
	case Forbidden, NotFound, BadRequest, NotAcceptable:
		return true
	default:
		return false
	}
}
