package reflector

import (
	"context"
	"fmt"
	"time"

	"github.com/tidings/tidings/internal/assert"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// A server's most recent state has to be behind what was already seen for rewrittenAfter, and in
// rewrittenTimes responses in a row, before its history counts as rewritten, as after a restore of
// etcd from a backup. A replica that merely lags catches up sooner, and one bad replica of several,
// behind a load balancer, is rarely met three times in a row.
const (
	rewrittenAfter = 5 * time.Second
	rewrittenTimes = 3
)

// A proxy may end watches before their first bookmark, for ever. confirmWithin is for how long watches may follow each
// other without a sign that the server still has their history, before a check precedes the next one. It is
// confirmClosedWithin after a watch that was closed: whoever closes one early may also hold back what it should bring,
// or be a server that is being replaced. A connection that breaks says nothing of that kind.
const (
	confirmWithin       = time.Hour
	confirmClosedWithin = 2 * time.Minute
)

// checkAfter is the length of a watch's silence after which the next watch begins with a check.
// Bookmarks arrive about every minute. It is also the time that a watch without a check has for
// delivering something before there is a check beside it.
const checkAfter = 90 * time.Second

// history tracks whether the server still has the history that the sink's contents come from.
type history struct {
	// behindTimes is how often in a row the server's most recent state was behind, and behindSince when that began. It
	// remains set until the next list, since there is something wrong even if another answer was not behind.
	behindSince time.Time
	behindTimes int
	// rewritten makes the next list reuse nothing, since a version of an object may now stand for another state.
	rewritten bool
}

// behindError reports that the server's collection is older than what the sink holds.
type behindError struct{ got, seen string }

func (e behindError) Error() string {
	return fmt.Sprintf("the server's collection is at resource version %s, but %s has already been seen", e.got, e.seen)
}

// rewrittenError reports that the server's history was rewritten. what says whose versions got and seen are.
type rewrittenError struct{ what, got, seen string }

func (e rewrittenError) Error() string {
	return fmt.Sprintf("the server's most recent resource version%s is %s, although it was %s before: its data were probably restored from a backup; listing everything again",
		e.what, e.got, e.seen)
}

// behind reports whether a collection at version is older than what was already seen.
func (r *Reflector[T]) behind(version string) bool {
	return !r.unproven() && object.OlderResourceVersion(version, r.last)
}

// serverBehind handles a response that is older than what was already seen; recent says that the most recent state was
// requested. The response is rejected, unless that has gone on for long enough.
func (r *Reflector[T]) serverBehind(version string, recent bool) {
	assert.Reached("the server is behind what was seen")
	r.mostRecent = true
	err := behindError{version, r.last}
	if !recent {
		r.fail(err, Starting)
		return
	}
	if r.history.behindTimes++; r.history.behindTimes == 1 {
		r.history.behindSince = time.Now()
	}
	if r.history.behindTimes < rewrittenTimes || time.Since(r.history.behindSince) < rewrittenAfter {
		r.failAfter(err, Starting, rewrittenAfter/(rewrittenTimes-1))
		return
	}
	r.historyRewritten(rewrittenError{got: version, seen: r.last})
}

// noteReached records that the server has shown a version. If that is not behind, the server was not restored, however
// often one of its replicas was behind before.
func (r *Reflector[T]) noteReached(version string) {
	if r.history.behindTimes > 0 && !isUnset(version) && !r.behind(version) {
		assert.Reached("a server that was behind is not")
		r.history.behindTimes = 0
	}
}

// historyRewritten forgets the version seen, and relists.
func (r *Reflector[T]) historyRewritten(err rewrittenError) {
	assert.Reached("the history was rewritten")
	r.last, r.mostRecent = "", false
	r.history = history{rewritten: true}
	r.status.rewrites.Add(1)
	r.status.lead.clear()
	r.failAtOnce(err, Starting)
}

// historySuspect reports whether the server's most recent state has been behind since the last
// list, so that its history may be another one, whatever its version is now.
func (r *Reflector[T]) historySuspect() bool {
	return r.history.rewritten || !r.history.behindSince.IsZero()
}

// previous returns Options.Previous, or nil if nothing may be reused.
func (r *Reflector[T]) previous() source.Previous[T] {
	if r.historySuspect() || r.unproven() {
		return nil
	}
	return r.opts.Previous
}

// wentBack reports whether an object is in an older state than the sink's.
func (r *Reflector[T]) wentBack(o intake.Received[T]) (older bool) {
	defer r.status.recoverAndCount()
	seen, held := r.holder.Held(o.Key())
	return held && seen.GetUID() == o.UID() && object.OlderResourceVersion(o.Version(), seen.GetResourceVersion())
}

// historyOvertaken handles a list which shows that a history that was found to be behind was
// rewritten, and has passed the old version by now.
func (r *Reflector[T]) historyOvertaken(version string) {
	r.historyRewritten(rewrittenError{got: version, seen: r.last, what: ", by what it has of " + r.list.older.String() + ","})
}

// comparable reports whether versions can be compared with last.
func (r *Reflector[T]) comparable() bool {
	return !r.unproven() && object.OlderResourceVersion("1", r.last)
}

// checkHistory requests the server's most recent version before a watch is resumed. A watch alone
// would not show that the server was restored from a backup: one that starts at a future version is
// silent until the new history reaches it.
func (r *Reflector[T]) checkHistory(ctx context.Context) {
	r.resuming.recent = ""
	switch {
	case r.comparable():
	case r.deafness.stalled: // whether the server has anything new cannot be told without a list
		r.listDeaf()
		return
	default:
		r.historyChecked()
		return
	}
	if !r.admitRequest() {
		return
	}
	g := newWatchdog(ctx, r.opts.StallTimeout)
	defer g.stop()
	w := r.newWitness()
	opts := source.ListOptions[T]{
		Limit: 1, Only: w.key, Previous: r.previous(), NoSharing: r.opts.NoSharing, Skip: func(*source.ObjectError) { w.skipped = true },
	}
	result, err := r.listPlainly(g.ctx, opts, w.observe)
	if ctx.Err() != nil {
		return
	}
	r.noteResponse(err)
	if err == nil {
		r.noteNumbering(result.ResourceVersion, w.newest)
	}
	switch {
	case err != nil:
		r.historyCheckFailed(g.explain(err))
	case r.unproven():
		r.enter(Starting)
	case r.behind(result.ResourceVersion):
		r.serverBehind(result.ResourceVersion, true)
	case w.contradicts(r.last):
		r.historyRewritten(rewrittenError{what: " of " + w.key.String(), got: w.got.GetResourceVersion(), seen: w.held.GetResourceVersion()})
	case w.gone():
		r.enter(Starting) // it may have been deleted, or never have existed in this history
	default:
		r.history, r.resuming.recent = history{}, result.ResourceVersion
		r.status.noteServerVersion(result.ResourceVersion)
		if r.deafness.listDue(r.status.lead.oldest(), time.Now()) {
			r.listDeaf()
			return
		}
		r.historyChecked()
	}
}

// checkedBeside handles what a check beside a watch has found, as if it had preceded the next one.
func (r *Reflector[T]) checkedBeside(e unconfirmedError) {
	if e.err != nil {
		r.historyCheckFailed(e.err)
		return
	}
	r.serverBehind(e.version, true)
}

// witness is an object that shows whether the server's history is the one that the sink's contents
// come from. Its key is empty if there is none.
type witness[T object.Object] struct {
	key       object.Key
	held, got T      // the sink's and the server's state
	found     bool   // the server has it
	skipped   bool   // the server has something that cannot be decoded
	others    bool   // the source has listed other objects, so it cannot list a single one
	newest    string // the newest version of an object
}

// newWitness returns the most recently changed object of contents to resume from. A reflector
// that has been running does not need a witness: it checks soon enough to find a restored server
// behind.
func (r *Reflector[T]) newWitness() *witness[T] {
	if !r.resuming.active || r.resuming.newest.Name == "" {
		return &witness[T]{}
	}
	held, ok := r.holder.Held(r.resuming.newest)
	if !ok {
		return &witness[T]{}
	}
	return &witness[T]{key: r.resuming.newest, held: held}
}

// observe is called for each object that the server has.
func (w *witness[T]) observe(o T) error {
	w.newest = object.MaxResourceVersion(w.newest, o.GetResourceVersion())
	if object.KeyOf(o) == w.key {
		w.got, w.found = o, true
	} else {
		w.others = true
	}
	return nil
}

// contradicts reports whether the server has the object in another state than it had at version, and not because
// it has changed since.
func (w *witness[T]) contradicts(version string) bool {
	return w.found && w.got.GetResourceVersion() != w.held.GetResourceVersion() && !object.OlderResourceVersion(version, w.got.GetResourceVersion())
}

// gone reports whether the server does not have the object.
func (w *witness[T]) gone() bool { return w.key.Name != "" && !w.found && !w.skipped && !w.others }

// historyCheckFailed retries the check if that may help, and otherwise goes on to the watch without
// one. If the server cannot list a single object, the check is made without a witness.
func (r *Reflector[T]) historyCheckFailed(err error) {
	reason := reasonOf(err)
	if reason == BadRequest && r.resuming.newest.Name != "" {
		r.resuming.newest = object.Key{}
		return // staying in Checking
	}
	again := reason.transient() || reason == Unauthorized || isPanic(err)
	if reason == Server || isPanic(err) || reason == Timeout && !unanswered(err, reason) {
		r.failedWatches++
	}
	if !again || r.failedWatches >= triesInPlace {
		r.failedWatches = 0
		r.historyChecked()
		return
	}
	r.fail(err, Checking)
}

// historyChecked goes on to the watch after a check that found nothing wrong or is not possible.
func (r *Reflector[T]) historyChecked() {
	r.historyConfirmed = true
	r.enter(Watching)
}

// confirmHistory records, for the open watch or else the next one, that the server's history reaches last.
func (r *Reflector[T]) confirmHistory() {
	if r.stream != nil {
		r.stream.historyConfirmed.Store(true)
	}
	r.historyConfirmed = r.stream == nil
}
