package reflector

import (
	"time"

	"github.com/tidings/tidings/source"
)

const (
	// minSilenceLimit is how long a watch may be silent before it counts as stalled, if the server sends bookmarks, which it does about
	// once a minute.
	minSilenceLimit = 150 * time.Second
	// missedBookmarks is how many bookmarks have to be missing if a server sends them less often.
	missedBookmarks = 2.5
	// minBookmarkGap is how far apart two bookmarks of a watch have to be to show that the server sends them periodically.
	minBookmarkGap = 10 * time.Second
)

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

// silenceLimit returns how long a watch may be silent; 0 if there is no limit because the server has sent no bookmarks so far.
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
		left = min(left, silence)
	}
	if !w.historyConfirmed {
		left = min(left, time.Until(w.opened.Add(checkAfter)))
	}
	return r.untilRelist(left)
}

// extendWatch extends the time of a watch that has delivered a batch. first says that this was the first sign that the watch delivers
// anything at all.
func (r *Reflector[T]) extendWatch(batch []source.Event[T], first bool) {
	if r.stream == nil {
		return
	}
	if last := &batch[len(batch)-1]; last.Type == source.Bookmark {
		r.bookmarkRhythm.note(time.Now())
	}
	if first || r.bookmarkRhythm.longest > 0 {
		r.stream.extend(r.watchTimeLeft())
	}
}

// stalled records that a watch was abandoned because it was silent.
func (r *Reflector[T]) stalled() {
	r.status.stalls.Add(1)
	r.logRarely(slogWarn, "the watch went silent; another one is opened", "silent_for", time.Since(r.status.get(&r.status.lastContact)).Round(time.Second))
}
