package reflector

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

const (
	// shortWatch is the life under which a watch that ended cleanly is not followed by another at once.
	shortWatch = time.Second
	// watchListAgain is how long a server without WatchList is left in peace. Relists are rare, so asking again
	// costs next to nothing, and an upgraded server is found out.
	watchListAgain = time.Hour
	// invalidLogEvery is how often invalid events are logged.
	invalidLogEvery = 10 * time.Second
)

var (
	errShortWatch  = errors.New("the server closed the watch within a second and without anything new")
	errUnfinished  = errors.New("the server closed the watch before it had sent all current objects")
	errUnversioned = errors.New("the server ended the current objects without saying which resource version they are at")
)

// watching is an open watch.
type watching[T object.Object] struct {
	source.Stream[T]
	*guard
	opened  time.Time     // when it was asked for: some proxies answer only with the first event
	timeout time.Duration // that the server was asked for
	// synthetic is set while all events may be a picture of the current state, in no order: a watch that began
	// at no particular version. Their versions say nothing about how far the watch has come.
	synthetic bool
	// news is set once the watch has brought the sink to a newer version.
	news bool
}

// openStream asks for a watch that starts at last, or for a WatchList.
func (r *Reflector[T]) openStream(ctx context.Context, opts source.WatchOptions[T]) error {
	low := r.opts.WatchTimeout
	opts.Timeout = low + time.Duration(r.rand.Float64()*float64(low))
	patience := opts.Timeout + r.opts.StallTimeout
	if opts.SendInitialEvents {
		patience = r.opts.StallTimeout
	}
	w := &watching[T]{guard: newGuard(ctx, patience), opened: time.Now(), timeout: opts.Timeout}
	w.synthetic = !opts.SendInitialEvents && unset(opts.ResourceVersion)
	var err error
	if w.Stream, err = r.opts.Source.Watch(w.ctx, opts); err != nil {
		err = w.explain(err)
		w.guard.stop()
		return err
	}
	r.stream = w
	r.status.watches.Add(1)
	r.heard()
	return nil
}

// closeStream closes the stream, if there is one.
func (r *Reflector[T]) closeStream() {
	if r.stream == nil {
		return
	}
	r.stream.guard.stop()
	r.stream.Close() // what it says of a stream that is given up anyway helps nobody
	r.stream = nil
}

// read waits for the next events. They are valid until release.
func (r *Reflector[T]) read() ([]source.Event[T], error) {
	var err error
	r.buf, err = r.stream.Next(r.buf[:0])
	if err != nil {
		err = r.stream.explain(err)
	}
	return r.buf, err
}

// release lets go of the objects of the last read, so that the buffer keeps none alive.
func (r *Reflector[T]) release() { clear(r.buf) }

// watch opens a watch, or hands what it brings to the sink.
func (r *Reflector[T]) watch(ctx context.Context) {
	if r.stream == nil {
		err := r.openStream(ctx, source.WatchOptions[T]{ResourceVersion: r.last})
		if err != nil {
			r.watchEnded(ctx, err)
			return
		}
		r.synced()
		return
	}
	batch, err := r.read()
	r.deliver(batch)
	r.release()
	if err != nil {
		r.watchEnded(ctx, err)
	}
}

// deliver hands a batch to the sink and then notes how far it has brought it.
func (r *Reflector[T]) deliver(batch []source.Event[T]) {
	if len(batch) == 0 {
		return
	}
	r.heard()
	batch = slices.DeleteFunc(batch, r.drop)
	if len(batch) == 0 {
		return
	}
	version, bookmarks := r.last, 0
	for i := range batch {
		ev := &batch[i]
		if ev.Type == source.Bookmark {
			bookmarks++
		}
		r.stream.synthetic = r.stream.synthetic && ev.Type == source.Added
		if !r.stream.synthetic {
			version = object.MaxResourceVersion(version, ev.ResourceVersion)
		}
	}
	r.opts.Sink.Events(batch)
	r.status.events.Add(uint64(len(batch) - bookmarks))
	r.status.bookmarks.Add(uint64(bookmarks))
	if version != r.last {
		r.advance(version)
		r.stream.news = true
		r.succeeded()
	}
}

// unusable tells whether the sink is spared an event, and reports it then.
func (r *Reflector[T]) unusable(ev source.Event[T]) bool {
	if ev.Type >= source.Added && ev.Type <= source.Bookmark {
		return false
	}
	now := time.Now()
	err := invalidEventError{ev.Err}
	e := r.newError(err, 0, now)
	r.status.invalid.Add(1)
	if now.Sub(r.invalidLogged) >= invalidLogEvery {
		r.invalidLogged = now
		r.log.Warn(e.Error(), "invalid_so_far", r.status.invalid.Load())
	}
	r.opts.OnError(e)
	return true
}

// watchEnded picks what follows a watch that could not be opened, or has ended.
func (r *Reflector[T]) watchEnded(ctx context.Context, err error) {
	w := r.stream
	r.closeStream()
	switch {
	case ctx.Err() != nil:
	case w != nil && errors.Is(err, io.EOF):
		r.heard()
		r.watchClosed(w.opened, w.news)
	default:
		r.watchFailed(err)
	}
}

// watchClosed follows a watch that the server ended cleanly, as it does with every watch now and then. The next
// one is asked for at once; but so that no server can keep us asking, a second lies between two of them.
func (r *Reflector[T]) watchClosed(opened time.Time, news bool) {
	switch {
	case time.Since(opened) >= shortWatch:
		r.succeeded()
	case news:
		r.pause(opened.Add(shortWatch), Watching)
	default:
		r.watchFailed(errShortWatch)
	}
}

// watchFailed picks between the same watch again, as long as its version is good, and a relist.
func (r *Reflector[T]) watchFailed(err error) {
	next := Watching
	switch reason := reasonOf(err); reason {
	case Expired, NotFound:
		next = Starting // and the relist is not older than last, even where the resource was gone meanwhile
	case BadRequest:
		r.mostRecent = true // the version itself is what the server does not like
		next = Starting
	case Server, Protocol, Closed, Behind:
		if r.stuck++; r.stuck >= triesInPlace {
			r.stuck = 0
			r.mostRecent = r.mostRecent || reason == Behind
			next = Starting
		}
	}
	r.fail(err, next)
}

// watchList opens a watch that begins with the current objects, or gathers these.
func (r *Reflector[T]) watchList(ctx context.Context) {
	if r.stream == nil {
		opts := source.WatchOptions[T]{SendInitialEvents: true, Known: r.known}
		if r.knowsVersion() {
			opts.ResourceVersion = r.last
		}
		if err := r.openStream(ctx, opts); err != nil && ctx.Err() == nil {
			r.watchListFailed(err, false)
		}
		return
	}
	batch, err := r.read()
	r.gather(batch)
	r.release()
	switch {
	case err == nil, r.phase == BackingOff: // gather may have failed on its own
	case r.phase == Watching:
		r.watchEnded(ctx, err)
	case ctx.Err() == nil:
		r.closeStream()
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
	r.stream.extend(r.opts.StallTimeout)
	for i := range batch {
		ev := &batch[i]
		switch {
		case ev.Type == source.Bookmark && ev.InitialEventsEnd:
			r.initialEventsEnd(ev.ResourceVersion, batch[i+1:])
			return
		case ev.Type != source.Bookmark && !r.unusable(*ev):
			r.list.apply(ev)
		}
	}
	r.status.gathered.Store(int64(len(r.list.items)))
}

// initialEventsEnd completes a WatchList: its stream goes on as an ordinary watch.
func (r *Reflector[T]) initialEventsEnd(version string, rest []source.Event[T]) {
	if unset(version) {
		r.closeStream()
		r.watchListFailed(errUnversioned, true)
		return
	}
	if !r.replace(version) {
		return
	}
	r.stream.news = true
	r.stream.extend(time.Until(r.stream.opened.Add(r.stream.timeout + r.opts.StallTimeout)))
	r.deliver(rest)
}

// watchListFailed picks what follows a WatchList that failed; begun tells whether the server had accepted it.
func (r *Reflector[T]) watchListFailed(err error, begun bool) {
	if errors.Is(err, io.EOF) {
		err = errUnfinished
	}
	reason := reasonOf(err)
	switch {
	case !begun && notOffered(err):
		r.fallBack()
		r.enter(Starting)
		return
	case r.askForMostRecent(reason):
		r.enter(Starting)
		return
	case begun, reason == Server, reason == Timeout, reason == Protocol:
		// A silent one has cost enough time: fakes and old proxies take the request and send no initial events.
		if r.unfinished++; r.unfinished >= triesInPlace || err == errStalled {
			r.fallBack()
		}
	}
	r.fail(err, Starting)
}

// fallBack makes the next lists paged ones.
func (r *Reflector[T]) fallBack() {
	r.unfinished = 0
	r.noWatchListUntil = time.Now().Add(watchListAgain)
	r.log.Info("the server offers no WatchList; listing page by page")
}
