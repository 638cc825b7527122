package engine

import (
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/reflector"
)

// A list that puts right what was written to is requested after healEvery at the earliest, then
// after twice that, and so on, up to healAtMost: the program goes on writing.
const (
	healEvery  = 5 * time.Minute
	healAtMost = time.Hour
)

// listAgainEvery is how often, at most, a collection is listed again because of folded objects that
// cannot be opened: one of them may never open.
const listAgainEvery = 5 * time.Minute

// healing is what a part knows of lists that put something right.
type healing struct {
	// unconditional says that the next list replaces the store's state, whatever the versions are.
	unconditional atomic.Bool
	// contradicted says that the next list is of another history than the store.
	contradicted atomic.Bool
	// rewrites is the reflector's count of rewritten histories as of the last list; used on the reflector's goroutine.
	rewrites uint64
	// resolved is the problem that the last list resolved. The reflector's own status clears it only after it has
	// handed the list over.
	resolved atomic.Pointer[reflector.Error]

	// useless says that the source is a fake client, which may hand out its own objects: a list would bring what was
	// written to once more. It is set before the part runs.
	useless bool
	// These are guarded by Informer.mu. writeNext is when, at the earliest, a list may again be requested because of a
	// write to a cached object, and writeWait the interval before that. unreadable is when one was last requested
	// because a folded object could not be opened.
	writeNext  time.Time
	writeWait  time.Duration
	unreadable time.Time
}

// afterWrite reports whether to request a list because of a write to a cached object. It delays the next one.
// Informer.mu is held.
func (h *healing) afterWrite(now time.Time) bool {
	if h.useless || now.Before(h.writeNext) {
		return false
	}
	h.writeWait = min(max(2*h.writeWait, healEvery), healAtMost)
	h.writeNext = now.Add(h.writeWait)
	return true
}

// afterUnreadable reports whether to request a list because a folded object cannot be opened. It delays the next one.
// Informer.mu is held.
func (h *healing) afterUnreadable(now time.Time) bool {
	if now.Sub(h.unreadable) < listAgainEvery {
		return false
	}
	h.unreadable = now
	return true
}

// forceRelist requests a list that replaces the store's state unconditionally. The reflector logs
// and reports the cause.
func (p *part[T]) forceRelist(cause error) {
	p.healing.unconditional.Store(true)
	intake.ReflectorOf[reflector.Skipped](p.reflector).Relist(cause)
}

// noteResolved records that a list has resolved the present problem, unless that concerns the watch.
func (p *part[T]) noteResolved() {
	if problem := p.reflector.Status().Problem; problem != nil && problem.Phase != reflector.Watching {
		p.healing.resolved.Store(problem)
	}
}
