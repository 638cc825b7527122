package reflector

import (
	"time"

	"github.com/tidings/tidings/source"
)

const (
	// mostSilence is how long a watch may be silent where the server sends bookmarks, which it does about once a minute, before
	// it counts as stalled.
	mostSilence = 150 * time.Second
	// missedBookmarks is how many bookmarks have to be missing where a server sends them more rarely.
	missedBookmarks = 2.5
	// regular is how far apart two bookmarks of a watch have to be to show that the server sends them in quiet times.
	regular = 10 * time.Second
)

// rhythm is what is known of when watches bring bookmarks.
type rhythm struct {
	last    time.Time     // of this watch; zero before its first
	longest time.Duration // between two of a watch; 0 while that is not known
}

// beat notes a bookmark.
func (b *rhythm) beat(now time.Time) {
	if gap := now.Sub(b.last); !b.last.IsZero() && gap >= regular {
		b.longest = max(b.longest, gap)
	}
	b.last = now
}

// patience is how long a watch may be silent; 0 if silence says nothing, because the server has sent no bookmarks so far.
func (b *rhythm) patience() time.Duration {
	if b.longest == 0 {
		return 0
	}
	return max(mostSilence, time.Duration(missedBookmarks*float64(b.longest)))
}

// watchPatience is how long the open watch may go on without a word: until some time after it was asked to end, and where the server
// sends bookmarks, until these are missed. A connection can be dead without a sign, and a server or proxy can forget a watch.
func (r *Reflector[T]) watchPatience() time.Duration {
	w := r.stream
	left := time.Until(w.opened.Add(w.timeout + r.opts.StallTimeout))
	if silence := r.rhythm.patience(); silence > 0 {
		left = min(left, silence)
	}
	if !w.vouched {
		left = min(left, checkAfter)
	}
	return r.patience(left)
}

// expectNext gives the watch, which has brought a batch, the time to bring another one. first says that it had brought nothing before,
// and that it was not known whether it ever would.
func (r *Reflector[T]) expectNext(batch []source.Event[T], first bool) {
	if r.stream == nil {
		return
	}
	if last := &batch[len(batch)-1]; last.Type == source.Bookmark {
		r.rhythm.beat(time.Now())
	}
	if first || r.rhythm.longest > 0 {
		r.stream.extend(r.watchPatience())
	}
}

// stalled notes that a watch was given up because it was silent.
func (r *Reflector[T]) stalled() {
	r.status.stalls.Add(1)
	r.logRarely(slogWarn, "the watch went silent; another one is opened", "silent_for", time.Since(r.status.get(&r.status.contact)).Round(time.Second))
}
