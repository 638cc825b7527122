package reflector

import (
	"context"
	"fmt"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// rewrittenAfter is how long a server's most recent state has to be behind what was already seen before its history counts
// as rewritten, as it is after etcd was restored from a backup. A replica that only lags catches up sooner.
const rewrittenAfter = 5 * time.Second

// checkAfter is how long a server has to be silent on a watch for the next one to begin with a check. Bookmarks come about
// every minute. A watch that began without a check has to bring something until then, or is followed by one that does.
const checkAfter = 90 * time.Second

// history is what is known of whether the server's history is still the one that the sink was brought from.
type history struct {
	// behindSince is when the server's most recent state was first found to be behind; zero if it is not.
	behindSince time.Time
	// rewritten makes the next list one that reuses nothing, since the same version of an object may be another state.
	rewritten bool
}

// behindError says that the server's collection is older than what the sink holds.
type behindError struct{ got, seen string }

func (e behindError) Error() string {
	return fmt.Sprintf("the server's collection is at resource version %s, but %s has already been seen", e.got, e.seen)
}

// rewrittenError says that the server's history is another one now. what is what has the versions.
type rewrittenError struct{ what, got, seen string }

func (e rewrittenError) Error() string {
	return fmt.Sprintf("the server's most recent resource version%s is %s, although it was %s before: its data were probably restored from a backup; everything is listed anew",
		e.what, e.got, e.seen)
}

// behind tells whether a collection at version is older than what was already seen.
func (r *Reflector[T]) behind(version string) bool {
	return object.OlderResourceVersion(version, r.last)
}

// foundBehind follows an answer that is older than what was already seen; recent says that the most recent state was
// asked for. That is refused, but not for ever.
func (r *Reflector[T]) foundBehind(version string, recent bool) {
	r.mostRecent = true
	err := behindError{version, r.last}
	switch {
	case !recent:
		r.fail(err, Starting)
	case r.history.behindSince.IsZero():
		r.history.behindSince = time.Now()
		r.failAfter(err, Starting, rewrittenAfter)
	default: // that long ago
		r.rewritten(rewrittenError{got: version, seen: r.last})
	}
}

// rewritten gives up what was seen, and relists.
func (r *Reflector[T]) rewritten(err rewrittenError) {
	r.last, r.mostRecent = "", false
	r.history = history{rewritten: true}
	r.status.rewrites.Add(1)
	r.failAtOnce(err, Starting)
}

// suspected tells whether the server's most recent state has been behind since the last list, so that its history may be
// another one by now, whatever its version.
func (r *Reflector[T]) suspected() bool {
	return r.history.rewritten || !r.history.behindSince.IsZero()
}

// previous is Options.Previous, unless nothing of it may be reused.
func (r *Reflector[T]) previous() source.Previous[T] {
	if r.suspected() {
		return nil
	}
	return r.opts.Previous
}

// wentBack tells whether an object is in an older state than what was already seen of it.
func (r *Reflector[T]) wentBack(o T) (older bool) {
	defer r.status.contain()
	seen, held := r.held(object.KeyOf(o))
	return held && seen.GetUID() == o.GetUID() && object.OlderResourceVersion(o.GetResourceVersion(), seen.GetResourceVersion())
}

// overtaken follows a list that shows that a history which was found to be behind is a rewritten one, and has come past the old
// one meanwhile.
func (r *Reflector[T]) overtaken(version string) {
	r.rewritten(rewrittenError{got: version, seen: r.last, what: ", by what it has of " + r.list.older.String() + ","})
}

// comparable tells whether an older version than last can be told from it.
func (r *Reflector[T]) comparable() bool { return object.OlderResourceVersion("1", r.last) }

// check asks for the server's most recent version before a watch is resumed. A watch alone would not show that the server
// was restored from a backup: one that starts in the future is silent until the new history gets there.
func (r *Reflector[T]) check(ctx context.Context) {
	r.recent = ""
	if !r.comparable() {
		r.checked()
		return
	}
	if !r.admitted() {
		return
	}
	g := newGuard(ctx, r.opts.StallTimeout)
	defer g.stop()
	w := r.newWitness()
	opts := source.ListOptions[T]{
		Limit: 1, Only: w.key, Previous: r.previous(), NoSharing: r.opts.NoSharing, Skip: func(*source.ObjectError) { w.skipped = true },
	}
	result, err := r.callList(g.ctx, opts, w.look)
	if ctx.Err() != nil {
		return
	}
	r.answered(err)
	switch {
	case err != nil:
		r.checkFailed(g.explain(err))
	case r.behind(result.ResourceVersion):
		r.foundBehind(result.ResourceVersion, true)
	case w.contradicts(r.last):
		r.rewritten(rewrittenError{what: " of " + w.key.String(), got: w.got.GetResourceVersion(), seen: w.held.GetResourceVersion()})
	case w.gone():
		r.enter(Starting) // it may have been deleted, or never have been
	default:
		r.history, r.recent = history{}, result.ResourceVersion
		r.checked()
	}
}

// witness is an object that shows whether the server's history is the one that the sink was brought from. Its key is empty if
// there is none.
type witness[T object.Object] struct {
	key       object.Key
	held, got T
	found     bool // the server has it
	skipped   bool // the server has something that cannot be decoded
	others    bool // the source has listed others: it cannot list one object
}

// newWitness returns the object that was changed last before the sink's contents were brought here from elsewhere. As long as
// a reflector runs there is no need for one: it asks soon enough to find the server behind.
func (r *Reflector[T]) newWitness() *witness[T] {
	if !r.resumed || r.newest.Name == "" {
		return &witness[T]{}
	}
	held, ok := r.held(r.newest)
	if !ok {
		return &witness[T]{}
	}
	return &witness[T]{key: r.newest, held: held}
}

// look is told of what the server has.
func (w *witness[T]) look(o T) error {
	if object.KeyOf(o) == w.key {
		w.got, w.found = o, true
	} else {
		w.others = true
	}
	return nil
}

// contradicts reports whether the server has the object in another state than the one it had at the version, and not because
// it was changed since.
func (w *witness[T]) contradicts(version string) bool {
	return w.found && w.got.GetResourceVersion() != w.held.GetResourceVersion() && !object.OlderResourceVersion(version, w.got.GetResourceVersion())
}

// gone reports whether the server does not have the object.
func (w *witness[T]) gone() bool { return w.key.Name != "" && !w.found && !w.skipped && !w.others }

// checkFailed asks again, unless the server's answer is only about lists: then the watch goes on without. A server that cannot
// list one object is asked for any.
func (r *Reflector[T]) checkFailed(err error) {
	reason := reasonOf(err)
	if reason == BadRequest && r.newest.Name != "" {
		r.newest = object.Key{}
		return // and stays in the phase
	}
	again := reason.transient() || reason == Unauthorized || isPanic(err)
	if reason == Server || isPanic(err) || reason == Timeout && !unanswered(err, reason) {
		r.stuck++
	}
	if !again || r.stuck >= triesInPlace {
		r.stuck = 0
		r.checked()
		return
	}
	r.fail(err, Checking)
}

// checked goes on with a watch after a check that has found nothing wrong, or that cannot be made.
func (r *Reflector[T]) checked() {
	r.vouched = true
	r.enter(Watching)
}

// vouch notes that the server's history comes as far as last, for the watch that is open or else the next one.
func (r *Reflector[T]) vouch() {
	if r.stream != nil {
		r.stream.vouched = true
	}
	r.vouched = r.stream == nil
}
