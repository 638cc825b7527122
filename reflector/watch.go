package reflector

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// shortWatch is the age from which a watch counts as working, and its end as normal.
const shortWatch = time.Second

// watching is an open watch.
type watching[T object.Object] struct {
	source.Stream[T]
	*watchdog
	opened  time.Time     // when it was requested: some proxies respond only with the first event
	since   time.Time     // when changes could first be expected: opened, or the end of the initial events
	timeout time.Duration // as requested from the server
	// synthetic is set while all events may be synthetic ones for the current state, in no
	// particular order: in a watch that began at no particular version. Their versions do not show
	// how far the watch has got.
	synthetic bool
	// gotNews is set once the watch has brought the sink to a newer version.
	gotNews bool
	// from is the version at which the watch began.
	from string
	// historyConfirmed is set once the server has shown that its history reaches from: by a list or
	// check right before, by a check beside the watch, or by anything not older that the watch
	// delivers. A watch that begins at a future version is silent.
	historyConfirmed atomic.Bool
	// confirmation runs the check beside the watch; nil if there is none.
	confirmation *time.Timer
	// silentSince is when the watch last brought something, or was opened, and longestSilence the
	// longest time without anything before.
	silentSince    time.Time
	longestSilence time.Duration
	// hedge is nil unless this is a WatchList.
	hedge *hedge[T]
	// gatherDeadline is the deadline for the initial events. live is set once the server has sent other events.
	gatherDeadline time.Time
	live           bool
}

// brought records that the watch has brought something.
func (w *watching[T]) brought(now time.Time) {
	w.longestSilence = max(w.longestSilence, now.Sub(w.silentSince))
	w.silentSince = now
}

// proven reports whether the watch has proved to work: it has delivered something new, or has lasted long enough.
func (w *watching[T]) proven(now time.Time) bool { return w.gotNews || now.Sub(w.since) >= shortWatch }

// openStream opens a watch or WatchList with the given options.
func (r *Reflector[T]) openStream(ctx context.Context, opts source.WatchOptions[T]) error {
	r.opened = false
	now, low := time.Now(), r.opts.WatchTimeout
	opts.Timeout = low + time.Duration(r.retry.rand.Float64()*float64(low))
	w := &watching[T]{watchdog: newWatchdog(ctx, r.deafness.stretch(r.opts.StallTimeout)), opened: now, since: now, timeout: opts.Timeout}
	w.from, w.silentSince = r.last, now
	if opts.SendInitialEvents {
		w.hedge = r.startHedge(w)
	}
	w.gatherDeadline = now.Add(maxInitialEventsTime * r.opts.StallTimeout)
	w.synthetic = !opts.SendInitialEvents && isUnset(opts.ResourceVersion)
	w.historyConfirmed.Store(r.historyConfirmed || !r.comparable())
	r.historyConfirmed = false
	returned := false
	defer func() {
		if !returned { // the source called runtime.Goexit, and what runs beside the stream has to end
			w.watchdog.stop()
		}
	}()
	var err error
	w.Stream, err = r.callWatch(w.ctx, opts)
	if returned = true; err != nil {
		err = w.explain(err)
		w.watchdog.stop()
		if err == errListFaster {
			r.continueList(w.hedge.page)
			return nil
		}
		r.noteResponse(err)
		return err
	}
	r.stream, r.opened, r.bookmarkRhythm.last = w, true, time.Time{}
	r.relistRequest.interrupt.Store(&w.watchdog.cancel)
	r.noteResponse(nil)
	r.status.watches.Add(1)
	if !opts.SendInitialEvents {
		w.extend(r.watchTimeLeft())
		if !w.historyConfirmed.Load() {
			w.confirmation = time.AfterFunc(checkAfter-time.Since(now), func() { r.beside.run(func() { r.confirmBeside(w) }) })
		}
	}
	return nil
}

// closeStream closes the stream, if there is one.
func (r *Reflector[T]) closeStream() {
	w := r.stream
	if w == nil {
		return
	}
	r.stream = nil
	r.retry.seen = r.opts.Peers.discoveriesSoFar() // discoveries from while it was open are irrelevant to its end
	r.status.provenAt.clear()
	w.watchdog.stop()
	if w.confirmation != nil {
		w.confirmation.Stop()
	}
	defer r.status.recoverAndCount()
	w.Close() // the error does not matter, since the stream is abandoned
}

// watch opens a watch, or hands its next events to the sink.
func (r *Reflector[T]) watch(ctx context.Context) {
	if r.stream == nil {
		r.openWatch(ctx)
		return
	}
	batch, err := r.read()
	r.deliver(batch)
	r.release()
	if err != nil && r.phase == Watching {
		r.watchEnded(ctx, err)
	}
}

func (r *Reflector[T]) openWatch(ctx context.Context) {
	if !r.admitRequest() {
		return
	}
	if err := r.openStream(ctx, source.WatchOptions[T]{ResourceVersion: r.last}); err != nil {
		r.watchEnded(ctx, err)
		return
	}
	r.synced()
	if r.resuming.active {
		r.holder.OnResume(r.stream.ctx, r.resuming.recent)
	}
	switch {
	case r.failedWatches == 0:
		r.recovered()
	case r.skipped.relistAt.IsZero(): // previous watches failed after they were opened
		r.status.set(&r.status.provenAt, r.stream.opened.Add(shortWatch))
	}
}

// deliver hands a batch to the sink and then records the progress.
func (r *Reflector[T]) deliver(batch []event[T]) {
	if len(batch) == 0 {
		return
	}
	r.noteContact()
	if !r.stream.historyConfirmed.Load() && r.reachesLast(batch) {
		r.stream.historyConfirmed.Store(true)
	}
	r.extendWatch(batch)
	b := changes[T]{version: r.last, changes: slices.Grow(r.inbox.changes[:0], len(batch))}
	for i := range batch {
		r.translate(&b, &batch[i])
	}
	defer r.keepRoom(b.changes)
	r.status.events.Add(uint64(len(b.changes))) // before the changes can be seen
	r.status.bookmarks.Add(uint64(b.bookmarks))
	r.announceSkipped()
	if len(b.changes) > 0 || b.bookmarks > 0 {
		r.holder.Change(b.changes, b.version)
	}
	r.publishSkipped()
	if b.lost {
		r.status.lost.Store(true)
	}
	if b.version != r.last {
		r.advance(b.version)
		r.stream.gotNews = true
		r.progressed()
		if !b.lost {
			r.recovered()
		}
	}
	switch {
	case b.lost:
		r.lostEvents(true)
	case b.strange:
		r.relistSoon()
	}
}

// maxKeptChanges bounds the room for changes that is kept for the next batch: most are small.
const maxKeptChanges = 64

// keepRoom keeps the room of delivered changes for the next ones.
func (r *Reflector[T]) keepRoom(delivered []intake.Change[T]) {
	if r.inbox.changes = nil; cap(delivered) <= maxKeptChanges {
		clear(delivered)
		r.inbox.changes = delivered
	}
}

// reachesLast reports whether a batch shows that the server's history reaches last: a server that
// was restored from a backup may send what is older than that.
func (r *Reflector[T]) reachesLast(batch []event[T]) bool {
	return slices.ContainsFunc(batch, func(ev event[T]) bool { return !r.behind(ev.ResourceVersion) })
}

// changes is a batch for the holder.
type changes[T object.Object] struct {
	changes   []intake.Change[T]
	version   string
	bookmarks int
	lost      bool // there was an event whose object cannot be identified
	strange   bool // there was a stranger
}

// translate adds an event to a batch.
func (r *Reflector[T]) translate(b *changes[T], ev *event[T]) {
	switch ev.Type {
	case source.Added:
		r.change(b, object.Added, ev)
	case source.Modified:
		r.change(b, object.Updated, ev)
	case source.Deleted:
		r.change(b, object.Deleted, ev)
	case source.Bookmark:
		b.bookmarks++
	default:
		r.skipEvent(b, ev.Event)
		return // its version is not reliable
	}
	w := r.stream
	if w.synthetic = w.synthetic && ev.Type == source.Added; !w.synthetic {
		b.version = object.MaxResourceVersion(b.version, ev.ResourceVersion)
	}
}

// change adds a change to a batch.
func (r *Reflector[T]) change(b *changes[T], t object.DeltaType, ev *event[T]) {
	o := ev.received()
	key, version := o.Key(), o.Version()
	r.skipped.clear(key, version)
	b.strange = b.strange || t != object.Deleted && r.isStranger(key, version)
	b.changes = append(b.changes, intake.Change[T]{
		Delta: object.Delta[T]{Key: key, Object: ev.Object, Type: t}, State: ev.state, Unchanged: ev.unchanged,
	})
}
