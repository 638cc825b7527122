package memory

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// The rule is that of somebody who rents skis and does not know for how long: an object stays open until that has cost
// as much as opening it again. Whatever is read when, that costs at most twice what the best decision would have.

// bytesPerCore is the memory that costs as much as one core: clouds sell a core for the price of about 7.5 GB.
const bytesPerCore = 7.5e9

const (
	// small is how much memory of open objects is left alone.
	small = 4 << 20
	// Until some were timed, opening and folding an object are assumed to take as long as for a pod. The time that
	// follows from what they take is kept within bounds, since measurements can be far off.
	assumedOpen, assumedFold = 18 * time.Microsecond, 15 * time.Microsecond
	assumedSaving            = 4800 // bytes, by folding one
	leastUnread, mostUnread  = 20 * time.Second, 10 * time.Minute
	// leastSaving is the part of an open object's memory that folding has to save, and judgedFrom how many objects have
	// to be folded before that is judged: it costs CPU, and an object that is changed or read takes both for a while.
	leastSaving, judgedFrom = 0.25, 256
	// passes is in how many passes in a row an object has to be unread. The time after which it folds has as many.
	passes = 4
	// holdersWait is for how long objects stay open after somebody was found to hold most of them, and then twice that.
	holdersWait, holdersWaitMost = 10 * time.Minute, 2 * time.Hour
	// heldLeast is how many held objects matter.
	heldLeast = 1024
	// passVisits is how many objects a pass examines between checks of whether it ends.
	passVisits = 8192
)

// costs are what the rule reckons with, measured as the informer runs.
type costs struct {
	open, fold time.Duration // of one object
	saves      float64       // bytes, by folding one
}

// unread returns after which time an unread object folds.
func (c costs) unread() time.Duration {
	if c.saves <= 0 {
		return mostUnread
	}
	seconds := (c.open + c.fold).Seconds() * bytesPerCore / c.saves
	return min(max(time.Duration(seconds*float64(time.Second)), leastUnread), mostUnread)
}

// readPasses returns in how many passes in a row an object has to be unread that was opened for a reader: dropping it
// takes no folding.
func (c costs) readPasses() int {
	return max(1, int(passes*c.open/(c.open+c.fold)))
}

// rent returns what keeping n objects open for a time costs, as a time of one core.
func (c costs) rent(n int, d time.Duration) time.Duration {
	return time.Duration(float64(n) * c.saves / bytesPerCore * float64(d))
}

// scans decides whether a whole collection stays open because it is read as a whole so often. balance is by how much
// opening all objects for each of those reads would have cost more than keeping all of them open, between none and
// twice the cost of opening all: at half of that, all of them stay open, and at none no longer.
type scans struct {
	balance time.Duration
	scanned uint64 // FoldStats.Scanned at the last pass
	open    bool
}

// pass decides anew after the time d, in which reads of n objects have reached scanned.
func (s *scans) pass(c costs, n int, scanned uint64, d time.Duration) (open bool) {
	all := time.Duration(n) * c.open
	read := time.Duration(scanned-s.scanned) * c.open
	s.scanned = scanned
	s.balance = min(max(0, s.balance+read-c.rent(n, d)), 2*all)
	switch {
	case s.balance >= all && all > 0:
		s.open = true
	case s.balance == 0:
		s.open = false
	}
	return s.open
}

// rule is what an account knows for the rule. It is used by one pass at a time.
type rule struct {
	scans      scans
	last       time.Time // the last pass
	swept      time.Time // the last pass over the objects
	folding    time.Duration
	packed     int  // objects that took folding
	held       bool // at the last collection
	heldUntil  time.Time
	heldWait   time.Duration
	collection uint64 // FoldStats.Collections when holders were last looked for
}

// Decision is what the rule has decided for an informer, for its status.
type Decision struct {
	// Text says in a few words what is open, and why.
	Text string
	// FoldAfter is for how long an object has to be unread to be folded; 0 if nothing is folded by the rule.
	FoldAfter time.Duration
}

// decide records a decision.
func (b *Account[T]) decide(text string, after time.Duration) {
	b.decision.Store(&Decision{text, after})
}

// decideToFold records that what is unread folds, and returns after which time.
func (b *Account[T]) decideToFold(c costs) (after time.Duration) {
	after = c.unread()
	b.decide(fmt.Sprintf("folds what was not read for %v", after.Round(time.Second)), after)
	return after
}

// costs returns what the rule reckons with now.
func (b *Account[T]) costs(st store.FoldStats) costs {
	c := costs{open: assumedOpen, fold: assumedFold, saves: cmp.Or(b.MeanSize(), assumedSaving)}
	if st.OpenTime > 0 {
		c.open = st.OpenTime
	}
	if b.rule.packed > 0 && b.rule.folding > 0 {
		c.fold = b.rule.folding / time.Duration(b.rule.packed)
	}
	if st.Folded > 0 {
		c.saves = max(0, c.saves-float64(st.Bytes)/float64(st.Folded))
	}
	return c
}

// pass implements passing.
func (b *Account[T]) pass(now time.Time) (more bool) {
	b.passMu.Lock()
	defer b.passMu.Unlock()
	b.mu.Lock()
	closed := b.closed
	b.mu.Unlock()
	if closed || !b.isActive() {
		return false
	}
	defer b.enter()()
	b.owner.Store().Rearm() // before looking
	b.owner.LookForWrites() // to what is dropped or folded below
	snap := b.owner.Store().Snapshot()
	st := snap.FoldStats()
	b.Measure()
	c := b.costs(st)
	d := now.Sub(b.rule.last)
	if b.rule.last.IsZero() {
		d = 0
	}
	b.rule.last = now
	readAsAWhole := b.rule.scans.pass(c, snap.Len(), st.Scanned, d)
	switch held := b.isHeld(now, st); {
	case readAsAWhole:
		b.decide("open: all objects are read so often that keeping them costs less", 0)
		b.unfoldAll()
		return true
	case held:
		b.decide("open: somebody holds most of the objects", 0)
		b.unfoldAll()
		return true
	}
	return b.foldUnread(now, c)
}

// isHeld reports whether objects stay open because somebody holds most of those that were folded, so that folding
// them saves nothing.
func (b *Account[T]) isHeld(now time.Time, st store.FoldStats) bool {
	r := &b.rule
	if now.Before(r.heldUntil) {
		return true
	}
	if st.Collections == r.collection {
		return false
	}
	r.collection = st.Collections
	before := r.held
	held := st.Survivors - st.Recent
	if r.held = held >= max(heldLeast, st.Folded/2); !r.held || !before { // one also leaves what it meets being read
		return false
	}
	r.held = false
	r.heldWait = min(max(2*r.heldWait, holdersWait), holdersWaitMost)
	r.heldUntil = now.Add(r.heldWait)
	return true
}

// foldUnread folds what has been unread for long enough, if it is time to look.
func (b *Account[T]) foldUnread(now time.Time, c costs) (more bool) {
	pays := b.paysToFold()
	after := c.unread()
	if pays {
		b.decideToFold(c)
	} else {
		b.decide("open: folding saves less than a quarter of the memory", 0)
	}
	if now.Sub(b.rule.swept) < after/passes {
		return true
	}
	b.rule.swept = now
	opened := c.readPasses()
	left := b.owner.Store().ForgetIdle(opened) + b.owner.Store().ForgetIdleTemplates(opened)
	if b.isSmall() || !pays {
		return left > 0
	}
	waiting := b.foldIdle(passes)
	if b.Repack(func() bool { return false }) {
		return true
	}
	return left+waiting > 0
}

// isSmall reports whether what is open is so little that it is left alone.
func (b *Account[T]) isSmall() bool {
	st := b.owner.Store().Snapshot().FoldStats()
	return !Eager && float64(st.Open)*b.MeanSize() < small && st.Folded == 0
}

// paysToFold reports whether folded objects take so much less than open ones that the rule folds any. Content of which no
// two objects have much in common, such as random data, does not.
func (b *Account[T]) paysToFold() bool {
	st, open := b.owner.Store().Snapshot().FoldStats(), b.MeanSize()
	if Eager || st.Folded < judgedFrom || open <= 0 {
		return true
	}
	return float64(st.Bytes)/float64(st.Folded) <= (1-leastSaving)*open
}

// foldIdle folds the open objects that were found unused in this many passes in a row, and returns how many will be
// due later.
func (b *Account[T]) foldIdle(passes int) (waiting int) {
	var from object.Key
	for left := b.owner.Store().Snapshot().Len(); left > 0; {
		if st := b.owner.Store().Snapshot().FoldStats(); st.Open <= st.Unfoldable || b.isClosed() {
			return waiting
		}
		began := time.Now()
		cold, later := b.owner.Store().PackIdle(from, passVisits, passes)
		if cold.Len() > 0 {
			b.owner.Fold(cold)
			b.rule.folding, b.rule.packed = b.rule.folding+time.Since(began), b.rule.packed+cold.Len()
		}
		waiting, left, from = waiting+later, left-max(1, cold.Visited), cold.Next
		if !b.paysToFold() {
			break
		}
	}
	if b.rule.packed > 1<<20 { // what it takes may change
		b.rule.folding, b.rule.packed = b.rule.folding/2, b.rule.packed/2
	}
	return waiting
}

// unfoldAll makes all objects open ones. What was kept open for readers is in the store then.
func (b *Account[T]) unfoldAll() {
	defer b.owner.Store().ForgetIdle(math.MaxInt)
	var from object.Key
	for left := b.owner.Store().Snapshot().Len(); left > 0 && !b.isClosed(); {
		if b.owner.Store().Snapshot().FoldStats().Folded == 0 {
			return
		}
		opening := b.owner.Store().OpenFolded(from, passVisits)
		if opening.Len() > 0 {
			b.owner.Unfold(opening)
		}
		left, from = left-max(1, opening.Visited), opening.Next
	}
}

func (b *Account[T]) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// wants reports whether so many objects of this mean size are worth folding.
func wants(objects int, mean float64) bool {
	return Eager || float64(objects)*mean >= small
}
