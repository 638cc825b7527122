package controller

import (
	"fmt"
	"slices"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/object"
)

// expectation is what a write leaves of one object: what a cache has to show of it. The model in full:
//
//  1. A write leaves one expectation for each object that it has changed: the object with uid U is there at version V
//     or a later one (present), is gone, is being deleted or gone (ending), or nobody knows (unknown).
//  2. A cache satisfies it with what it holds under the object's key, compared by uid and version; with the version
//     that it is current to, if that is V or later; or because its scope proves that it never shows the object.
//  3. What is unknown is looked up. The answer is an expectation again: present, or absent. So is what a look-up finds of
//     a write that the server had confirmed, if a restore has undone it.
//  4. A cache without a version has seen nothing. One with another history than before, as after a restore, satisfies every
//     expectation from before that: in the new history the write may not exist.
//  5. If a cache was current to a later version than V before an object was created, the server has another history
//     already, and the cache does not know yet: it has not seen the object before its history changes. Other writes prove
//     nothing of that kind: one that changes nothing leaves the object's version as it was.
//  6. A cache that satisfies an expectation because it does not hold the object may be behind its creation. So the
//     expectation is kept, as long as a write is waited for, and fails again once the cache does hold it.
//
// No expectation ever waits for the version of a list, since that belongs to the whole server: a cache whose objects do
// not change reaches it with its next bookmark.
type expectation struct {
	want     want
	resource schema.GroupResource
	// object has the key, the uid, the version and the labels, as far as they are known. The version of what is gone is
	// the last one before that.
	object metav1.ObjectMeta
	// before are the uids of objects with that key that some cache held before the write; see heldBefore.
	before []types.UID
	// guessed is set if it is not certain that the write concerned the object with this uid: the cache held that one, and
	// may have been behind.
	guessed bool
	// certain is set if a look-up has found that it is gone.
	certain bool
	// unlabeled is set if the labels are not known.
	unlabeled bool
	// created is set if the write has made the object.
	created bool
	// in is the only cache that has to show it, and covered whether that covers the object; nil: every cache of the
	// resource.
	in      cacheView
	covered bool
	// noted is when the write was noted, by the clock of histories.
	noted uint64
	// reached are the versions of caches before the request was sent, or the reconcile began.
	reached reachedVersions
	// from is the request of the write, with which it can be looked up; nil if it cannot.
	from *origin
	// implied are expectations of other objects that a cache shows, too, if it shows this one.
	implied []*expectation
}

// want is what is expected of an object.
type want uint8

const (
	present want = iota
	gone
	ending  // is being deleted, or gone
	absent  // there is no object with that name
	unknown // to be looked up; without a name, any object of the namespace
)

// state is what a cache, or the server, has of an object.
type state struct {
	uid     types.UID
	version string
	ending  bool // it is being deleted
	kept    bool // something keeps the server from removing it
}

func stateOf(o metav1.Object) state {
	return state{o.GetUID(), o.GetResourceVersion(), o.GetDeletionTimestamp() != nil, !nothingHolds(o)}
}

// view is a cache as expectations look at it.
type view interface {
	// version returns the version that the cache is current to in a namespace; "" if it has seen nothing of it. rewritten
	// is when another history was last noticed, by the clock of histories.
	version(namespace string) (now string, rewritten uint64)
	// state returns what the cache holds under the key.
	state(object.Key) (state, bool)
	// covers reports whether the cache would hold the object. known is false if nobody can tell.
	covers(metav1.Object) (covers, known bool)
	// hasNamespace reports whether the cache holds objects of the namespace.
	hasNamespace(string) bool
}

// verdict is how a cache satisfies an expectation.
type verdict uint8

const (
	past    verdict = iota // for good
	shown                  // with what it holds now
	behind                 // not yet
	unclear                // nobody knows before a look-up
)

// historyClock counts the notes of writes, and the times that another history was noticed in a cache.
var historyClock atomic.Uint64

func (e *expectation) key() object.Key {
	return object.Key{Namespace: e.object.Namespace, Name: e.object.Name}
}

// seen reports whether the cache shows what is expected.
func (e *expectation) seen(v view) verdict {
	now, rewritten := v.version(e.object.Namespace)
	switch {
	case rewritten > e.noted:
		return past
	case now == "" && v.hasNamespace(e.object.Namespace):
		return behind
	case now == "": // it never shows it, unless the namespace is added
		return shown
	case e.want == unknown:
		return e.seenUnknown(v)
	case e.created && e.want == present && e.reached.passed(v, e.object.ResourceVersion, rewritten):
		return behind
	case e.want == present && !object.OlderResourceVersion(now, e.object.ResourceVersion):
		return past
	}
	held, ok := v.state(e.key())
	switch {
	case !ok:
		return e.seenWithout(v, now)
	case e.want != absent && (e.object.UID == "" || e.object.UID == held.uid):
		return e.seenIn(held)
	case slices.Contains(e.before, held.uid) || object.OlderResourceVersion(held.version, e.object.ResourceVersion):
		return behind // a predecessor
	case e.want == absent || e.guessed:
		return unclear
	}
	return shown // a successor
}

// seenUnknown is seen for a write whose outcome is not known. A cache without the namespace never shows it.
func (e *expectation) seenUnknown(v view) verdict {
	if v.hasNamespace(e.object.Namespace) {
		return unclear
	}
	return shown
}

// seenIn is seen for a cache that holds the object itself.
func (e *expectation) seenIn(held state) verdict {
	switch {
	case e.allows(held):
		return shown
	case e.guessed && e.object.UID == "":
		return unclear
	}
	return behind
}

// allows reports whether the object may be in this state. What is gone may nevertheless be there in a later version than
// the last one, if something holds up its end, and no look-up has found it gone. A namespace has finalizers in its spec.
func (e *expectation) allows(held state) bool {
	switch e.want {
	case present:
		return !object.OlderResourceVersion(held.version, e.object.ResourceVersion)
	case gone:
		kept := held.kept || e.resource.Resource == "namespaces"
		return kept && !e.certain && object.OlderResourceVersion(e.object.ResourceVersion, held.version)
	}
	return held.ending
}

// seenWithout is seen for a cache, current to the version now, that holds no object under the key.
func (e *expectation) seenWithout(v view, now string) verdict {
	if e.want == absent {
		return shown
	}
	if e.guessed {
		return unclear
	}
	covers, known := e.coveredBy(v)
	switch {
	case e.unlabeled && !covers:
		return unclear
	case known && !covers:
		return shown
	case object.OlderResourceVersion(now, e.object.ResourceVersion):
		return behind
	case e.object.UID == "" && e.want == ending: // any object with that name will be another one
		return past
	}
	return shown
}

func (e *expectation) coveredBy(v view) (covers, known bool) {
	if e.in != nil {
		return e.covered, true
	}
	return v.covers(&e.object)
}

// contradicts reports whether what the server has of the object now is not what is expected.
func (e *expectation) contradicts(now state, exists bool) bool {
	if e.want == present {
		return !exists || object.OlderResourceVersion(now.version, e.object.ResourceVersion)
	}
	return exists && (e.object.UID == "" || now.uid == e.object.UID) && !e.allows(now)
}

// found returns what is expected after a look-up has found the object in a state, or has not found it.
func (e *expectation) found(o *metav1.ObjectMeta, from *origin) *expectation {
	next := &expectation{
		resource: e.resource, before: e.before, created: e.created || e.want == unknown, noted: historyClock.Add(1), from: from,
	}
	if o != nil {
		next.object = *o
		return next
	}
	next.want, next.created = absent, false
	next.object.Namespace, next.object.Name = e.object.Namespace, e.object.Name
	if e.object.UID != "" {
		next.before = append(slices.Clip(next.before), e.object.UID)
	}
	return next
}

// implies reports whether a cache that shows e shows the other expectation, too, whichever of the caches it is.
func (e *expectation) implies(other *expectation, caches []cacheView) bool {
	if e.resource != other.resource || e.in != other.in || e.object.Namespace != other.object.Namespace || e.want != present ||
		!e.from.sameServer(other.from) {
		return false
	}
	if other.want == ending && other.object.UID == "" && !other.guessed { // e is the write that came after it
		return e.object.Name == other.object.Name
	}
	if other.want != present || object.OlderResourceVersion(e.object.ResourceVersion, other.object.ResourceVersion) {
		return false
	}
	for _, cache := range caches {
		if !e.concerns(cache) {
			continue
		}
		covers, _ := e.coveredBy(cache)
		coversOther, known := other.coveredBy(cache)
		leftAlready := e.object.UID == other.object.UID && known && !coversOther
		if !covers && !leftAlready {
			return false
		}
	}
	return true
}

// concerns reports whether the cache may have to show the object.
func (e *expectation) concerns(cache cacheView) bool {
	if e.in != nil {
		return cache == e.in
	}
	return cache.tracks(e.resource)
}

// String names the expectation in messages.
func (e *expectation) String() string {
	name := e.resource.String()
	if e.in != nil {
		name = e.in.name()
	}
	switch e.want {
	case present:
		return fmt.Sprintf("%s: version %s of %s", name, e.object.ResourceVersion, e.key())
	case unknown:
		return fmt.Sprintf("%s: %s of %s, whose outcome is not known", name, e.from.request.Method, e.key())
	}
	return fmt.Sprintf("%s: removal of %s", name, e.key())
}
