package engine

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// beginning is how a part gets its first state, and how far that has got. It is over once the store has everything that
// the server had when the part asked for it. Until then handlers may know some of the part's objects already: those
// that another part had, those of a first list that was not completed, or those of a file.
//
//	           ┌─ ① a list ─────────────────────────────────────────────────────┐
//	inherit ──►├─ ② an incomplete list: keepPartial, then another list ─────────┼──► end
//	           └─ ③ a file: resumeFrom, then the watch catches up, or a list ───┘
//
// All objects of the first state are initial ones for the handlers. Until the beginning is over, no list must be older
// than the floor; after that, none must be older than the store.
type beginning struct {
	done atomic.Bool // written under Informer.apply

	// These are guarded by Informer.apply. floor is the newest version that the store has had of the part's objects.
	// notBefore is the version at which handlers were notified that some of them are gone, because another part was
	// removed, if it is newer than floor. It is set before the part runs.
	floor     string
	notBefore string

	// These are used while a watch resumes from a file. file is the version of that, and goal the one that the watch
	// has to catch up with, "" if unknown; both are used only on the reflector's goroutine. newsAt is when the watch
	// last brought something, as an age of the part in nanoseconds; adding is set while changes are being added to the
	// store.
	file, goal string
	newsAt     atomic.Int64
	adding     atomic.Bool
}

// over reports whether the store has had the part's first state: whether the part has begun.
func (b *beginning) over() bool { return b.done.Load() }

// end marks the beginning as over. Informer.apply is held.
func (b *beginning) end() { b.done.Store(true) }

// inherit begins with what the store has of the part's objects, up to a version, from other parts. gone is the version
// at which handlers were notified that such objects are gone. Informer.apply is held.
func (b *beginning) inherit(version, gone string) {
	b.floor = version
	if version == "" || object.OlderResourceVersion(version, gone) {
		b.notBefore = gone
	}
}

// knowsNothing reports whether the store has had none of the part's objects. Informer.apply is held.
func (b *beginning) knowsNothing() bool { return b.floor == "" }

// resumeFrom begins with the content of a file. It is called on the reflector's goroutine; Informer.apply is held.
func (b *beginning) resumeFrom(version string) { b.floor, b.file = version, version }

// catchUp begins to wait for a watch that resumes from the file to reach the version that the server was at, if known.
// It returns false if there is nothing to wait for: nothing has happened since the file was saved.
func (b *beginning) catchUp(goal string) bool {
	if goal != "" && !object.OlderResourceVersion(b.file, goal) {
		return false
	}
	b.goal = goal
	return true
}

// hasReached reports whether the watch has caught up if it has brought the part to a version.
func (b *beginning) hasReached(version string) bool {
	return b.goal != "" && !object.OlderResourceVersion(version, b.goal)
}

// mayWait reports whether changes may wait for handlers. Until a resumed watch has caught up, they belong to the first
// state, which a handler may itself be waiting for.
func (b *beginning) mayWait() bool { return b.over() || b.goal == "" }

// news records that the watch has brought something at an age of the part.
func (b *beginning) news(age time.Duration) { b.newsAt.Store(int64(age)) }

// quiet returns for how long the watch has brought nothing, at an age of the part.
func (b *beginning) quiet(age time.Duration) time.Duration {
	if b.adding.Load() { // once it is false, newsAt is up to date
		return 0
	}
	return age - time.Duration(b.newsAt.Load())
}

// begun marks the part's beginning as over: the store has its first state. Nothing happens if it already was. apply is
// held.
func (p *part[T]) begun() {
	if p.beginning.over() {
		return
	}
	p.beginning.end()
	p.inf.mu.Lock()
	defer p.inf.mu.Unlock()
	p.inf.checkSynced()
}

func allBegun[T object.Object](parts []*part[T]) bool {
	for _, p := range parts {
		if !p.beginning.over() {
			return false
		}
	}
	return true
}

// beginsFromNothing reports whether the part begins, and handlers know none of its objects.
func (p *part[T]) beginsFromNothing(snap *store.Snapshot[T]) bool {
	return !p.beginning.over() && snap.In(p.namespace).Len() == 0
}

// newest returns the newest version that the part has put into the store. apply is held.
func (p *part[T]) newest() string {
	snap := p.inf.store.Snapshot()
	newest := snap.ResourceVersionIn(p.namespace)
	if p.beginning.over() {
		return newest
	}
	newest = object.MaxResourceVersion(p.beginning.floor, newest)
	for held := range snap.AllHeld(p.namespace) { // of an incomplete first list
		newest = object.MaxResourceVersion(newest, held.ResourceVersion())
	}
	return strings.Clone(newest) // it may be a part of an object
}

// keepPartial makes the newest version that an incomplete first list left in the store the floor, and returns it: an
// older list is of another history.
func (p *part[T]) keepPartial() string {
	p.inf.apply.Lock()
	defer p.inf.unlockApply()
	p.beginning.floor = p.newest()
	return p.beginning.floor
}
