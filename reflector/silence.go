package reflector

import (
	"time"

	"github.com/tidings/tidings/internal/assert"
	"github.com/tidings/tidings/source"
)

const (
	// minSilenceLimit is how long a watch may be silent before it counts as stalled, if the server
	// sends bookmarks, which it does about once a minute.
	minSilenceLimit = 150 * time.Second
	// missedBookmarks is how many bookmarks have to be missing if a server sends them less often.
	missedBookmarks = 2.5
	// minBookmarkGap is how far apart two bookmarks of a watch have to be to show that the server
	// sends them periodically.
	minBookmarkGap = 10 * time.Second
)

// maxDoublings is how often the limits are doubled at most: to twelve minutes for a response and twenty for silence.
const maxDoublings = 3

const (
	// deafWatches is how many watches in a row have to end without having brought anything, and
	// deafTime how long the server has to have something that the sink lacks, for a list to follow
	// in place of the next watch. A watch that was abandoned because it was silent for too long is
	// reason enough.
	deafWatches = 2
	deafTime    = 2 * time.Minute
)

// deafness tracks watches that bring nothing, and how long to wait for them: a proxy may hold back
// what the server sends.
type deafness struct {
	watches   int   // the number of consecutive watches that brought nothing
	stalled   bool  // the last one was abandoned because it was silent
	doublings uint8 // how often the limits have been doubled
}

// stretch returns the limit that applies in place of the usual one.
func (d *deafness) stretch(limit time.Duration) time.Duration { return limit << d.doublings }

// listDue reports whether a list is to follow in place of a watch; oldest is what the sink lacks.
func (d *deafness) listDue(oldest sighting, now time.Time) bool {
	if oldest.version == "" {
		return false
	}
	return d.stalled || d.watches >= deafWatches && now.Sub(oldest.at) >= deafTime
}

// listed records a list. If a watch was abandoned before, the next one gets more time: it might
// have brought something later.
func (d *deafness) listed() {
	if d.stalled {
		d.doublings = min(d.doublings+1, maxDoublings)
	}
	d.watches, d.stalled = 0, false
}

// noteWatchEnd records the end of a watch, or of the attempt to open one if w is nil; stalled says
// that it was abandoned because it was silent.
func (r *Reflector[T]) noteWatchEnd(w *watching[T], stalled bool) {
	d := &r.deafness
	d.stalled = stalled
	switch {
	case w == nil && !stalled: // nothing is known about watches
	case w == nil || w.silentSince.Equal(w.opened):
		d.watches++
	default:
		d.watches = 0
		if w.brought(time.Now()); w.longestSilence < r.opts.StallTimeout {
			d.doublings = 0
		}
	}
}

// listDeaf lists because watches do not bring what the server has. A WatchList would be a watch, too.
func (r *Reflector[T]) listDeaf() {
	assert.Reached("watches bring nothing while the server has more")
	r.listMethod.next = true
	r.logRarely(slogWarn, "watches do not bring what the server has; everything is listed",
		"resource_version", r.last, "server_resource_version", r.status.lead.newest())
	r.backOff(r.retry.waitForTurn(reconnectEvery), Starting, "")
}

// bookmarkRhythm tracks the intervals between bookmarks.
type bookmarkRhythm struct {
	last    time.Time     // the last bookmark of this watch; zero before its first
	longest time.Duration // the longest interval in a watch; 0 if unknown
}

// note records a bookmark.
func (b *bookmarkRhythm) note(now time.Time) {
	if gap := now.Sub(b.last); !b.last.IsZero() && gap >= minBookmarkGap {
		b.longest = max(b.longest, gap)
	}
	b.last = now
}

// silenceLimit returns how long a watch may be silent; 0 if there is no limit because the server
// has sent no bookmarks so far.
func (b *bookmarkRhythm) silenceLimit() time.Duration {
	if b.longest == 0 {
		return 0
	}
	return max(minSilenceLimit, time.Duration(missedBookmarks*float64(b.longest)))
}

// watchTimeLeft returns how long the open watch may stay silent: until some time after its timeout, or if the server
// sends bookmarks, until these are overdue. A connection can die unnoticed, and a server or proxy can forget a watch.
func (r *Reflector[T]) watchTimeLeft() time.Duration {
	w := r.stream
	left := time.Until(w.opened.Add(w.timeout + r.opts.StallTimeout))
	if silence := r.bookmarkRhythm.silenceLimit(); silence > 0 {
		left = min(left, r.deafness.stretch(silence)-time.Since(w.silentSince))
	}
	return r.untilRelist(left)
}

// extendWatch extends the time of a watch that has delivered a batch.
func (r *Reflector[T]) extendWatch(batch []event[T]) {
	if r.stream == nil {
		return
	}
	r.stream.brought(time.Now())
	for i := range batch {
		if batch[i].Type == source.Bookmark { // changes may have come right behind it
			r.bookmarkRhythm.note(time.Now())
			break
		}
	}
	if r.bookmarkRhythm.longest > 0 {
		r.stream.extend(r.watchTimeLeft())
	}
}

// stalled records that a watch was abandoned because it was silent.
func (r *Reflector[T]) stalled() {
	assert.Reached("a watch went silent")
	r.status.stalls.Add(1)
	r.logRarely(slogWarn, "the watch went silent; another one is opened", "silent_for", time.Since(r.status.get(&r.status.lastContact)).Round(time.Second))
}
