package reflector

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/tidings/tidings/source"
)

const (
	// watchListAgain is how long a server without WatchList is left in peace. Relists are rare, so asking again
	// costs next to nothing, and an upgraded server is found out.
	watchListAgain = time.Hour
	// endOfInitialEvents is how long a server may go on after the first sign that it sends changes, and not the
	// current objects any more, before it says that these are complete. Servers that offer a WatchList do that in the
	// same moment; one that ignores what it was asked for never does.
	endOfInitialEvents = 30 * time.Second
	// longestInitialEvents bounds the time for all current objects, in units of StallTimeout.
	longestInitialEvents = 10
)

var (
	errUnfinished  = errors.New("the server closed the watch before it had sent all current objects")
	errUnversioned = errors.New("the server ended the current objects without saying which resource version they are at")
	errEndless     = errors.New("the server keeps the watch open but does not say that it has sent all current objects")
)

// method is what is known of how the server lets itself be asked for the collection.
type method struct {
	// noWatchListUntil is when WatchList gets another chance after it was found missing.
	noWatchListUntil time.Time
	// tryLists is set when a WatchList was refused: whether a list is refused too shows whether it was the method.
	tryLists bool
	// unfinished counts WatchList streams in a row that ended before they were complete.
	unfinished int
}

// paged tells whether to ask for paged lists.
func (m *method) paged(now time.Time) bool { return m.tryLists || now.Before(m.noWatchListUntil) }

// fallBack makes the next lists paged ones.
func (r *Reflector[T]) fallBack() {
	r.method = method{noWatchListUntil: time.Now().Add(watchListAgain)}
	r.write(slog.LevelDebug, "the server offers no WatchList; listing page by page")
}

// watchList opens a watch that begins with the current objects, or gathers these.
func (r *Reflector[T]) watchList(ctx context.Context) {
	if r.stream == nil {
		if !r.admitted() {
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
// what follows in the batch are changes.
func (r *Reflector[T]) gather(batch []source.Event[T]) {
	if len(batch) == 0 {
		return
	}
	r.heard()
	objects := false
	for i := range batch {
		ev := &batch[i]
		switch ev.Type {
		case source.Bookmark:
			if ev.InitialEventsEnd {
				r.initialEventsEnd(ev.ResourceVersion, batch[i+1:])
				return
			}
			r.stream.goesLive()
		case source.Added:
			objects = true
			r.list.apply(ev)
		case source.Modified, source.Deleted:
			r.stream.goesLive()
			r.list.apply(ev)
		default:
			if err := r.skipInitial(*ev); err != nil {
				r.watchListFailed(err, true)
				return
			}
			objects = true
		}
	}
	r.status.gathered.Store(int64(r.list.len()))
	if objects {
		r.stream.extend(min(r.opts.StallTimeout, time.Until(r.stream.gatherBy)))
	}
}

// goesLive notes that the server has sent what is not a current object.
func (w *watching[T]) goesLive() {
	if w.live {
		return
	}
	w.live = true
	if by := time.Now().Add(endOfInitialEvents); by.Before(w.gatherBy) {
		w.gatherBy = by
		w.extend(endOfInitialEvents)
	}
}

// initialEventsEnd completes a WatchList: its stream goes on as an ordinary watch.
func (r *Reflector[T]) initialEventsEnd(version string, rest []source.Event[T]) {
	switch {
	case r.list.err != nil:
		r.watchListFailed(r.list.err, true)
	case unset(version):
		r.watchListFailed(errUnversioned, true)
	case r.behind(version):
		r.closeStream()
		r.foundBehind(version, r.list.recent)
	case r.list.older.Name != "":
		r.closeStream()
		r.overtaken(version)
	default:
		r.replace(version)
		r.stream.since = time.Now()
		r.stream.extend(r.watchPatience())
		r.deliver(rest)
	}
}

// watchListFailed picks what follows a WatchList that failed; begun tells whether the server had accepted it.
func (r *Reflector[T]) watchListFailed(err error, begun bool) {
	r.closeStream()
	if errors.Is(err, io.EOF) {
		err = errUnfinished
	}
	reason := reasonOf(err)
	switch {
	case !begun && refused(err):
		r.method.tryLists = true
		r.enter(Starting)
		return
	case r.askForMostRecent(reason):
		r.enter(Starting)
		return
	case begun, err == errStalled, !unanswered(err, reason) && (reason == Server || reason == Timeout || reason == Protocol):
		// A silent one has cost enough time: fakes and old proxies take the request and send no initial events.
		if r.method.unfinished++; r.method.unfinished >= triesInPlace || err == errStalled || err == errEndless {
			r.fallBack()
		}
	}
	r.fail(err, Starting)
}

// refused tells whether a server turned a WatchList down in a way that a list may not be turned down in: because it does
// not know what that is, or because only lists are granted.
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
