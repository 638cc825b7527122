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
// every minute.
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

// rewrittenError says that the server's history is another one now.
type rewrittenError struct{ got, seen string }

func (e rewrittenError) Error() string {
	return fmt.Sprintf("the server's most recent resource version is %s, although it was %s before: its data were probably restored from a backup; everything is listed anew",
		e.got, e.seen)
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
	now := time.Now()
	switch {
	case !recent:
		r.fail(err, Starting)
	case r.history.behindSince.IsZero():
		r.history.behindSince = now
		r.failAfter(err, Starting, rewrittenAfter)
	case now.Sub(r.history.behindSince) < rewrittenAfter:
		r.failAfter(err, Starting, r.history.behindSince.Add(rewrittenAfter).Sub(now))
	default:
		r.rewritten(version)
	}
}

// rewritten gives up what was seen, and relists.
func (r *Reflector[T]) rewritten(version string) {
	err := rewrittenError{version, r.last}
	r.last, r.mostRecent = "", false
	r.history = history{rewritten: true}
	r.status.rewrites.Add(1)
	r.failAtOnce(err, Starting)
}

// previous is Options.Previous, unless nothing of it may be reused.
func (r *Reflector[T]) previous() source.Previous[T] {
	if r.history.rewritten {
		return nil
	}
	return r.opts.Previous
}

// check asks for the server's most recent version before a watch is resumed. A watch alone would not show that the server
// was restored from a backup: one that starts in the future is silent until the new history gets there.
func (r *Reflector[T]) check(ctx context.Context) {
	r.recent = ""
	if !object.OlderResourceVersion("1", r.last) { // it cannot be compared, or nothing is older
		r.enter(Watching)
		return
	}
	if !r.admitted() {
		return
	}
	g := newGuard(ctx, r.opts.StallTimeout)
	defer g.stop()
	opts := source.ListOptions[T]{Limit: 1, NoSharing: r.opts.NoSharing, Skip: func(*source.ObjectError) {}}
	result, err := r.callList(g.ctx, opts, func(T) error { return nil })
	if ctx.Err() != nil {
		return
	}
	r.answered(err)
	switch {
	case err != nil:
		r.checkFailed(g.explain(err))
	case r.behind(result.ResourceVersion):
		r.foundBehind(result.ResourceVersion, true)
	default:
		r.history, r.recent = history{}, result.ResourceVersion
		r.enter(Watching)
	}
}

// checkFailed asks again, unless the server's answer is only about lists: then the watch goes on without.
func (r *Reflector[T]) checkFailed(err error) {
	reason := reasonOf(err)
	again := reason.transient() || reason == Unauthorized || isPanic(err)
	if reason == Server || isPanic(err) || reason == Timeout && !unanswered(err, reason) {
		r.stuck++
	}
	if !again || r.stuck >= triesInPlace {
		r.stuck = 0
		r.enter(Watching)
		return
	}
	r.fail(err, Checking)
}
