package controller

import (
	"slices"

	"github.com/tidings/tidings/workqueue"
)

// What a reconcile has created may be deleted before a cache has seen it. If the history of that is lost as well, no event
// ever tells of the object, and nothing would reconcile the key again. So the gate remembers the objects until the caches
// have shown them, however long that takes; if a cache is past the creation without the object, the key comes back.

// maxCreated is for how many keys creations that no cache shows yet are remembered.
const maxCreated = 10_000

// remember remembers the creation of an object, and forgets that of one that the key's own reconcile has deleted. The
// caller holds mu.
func (g *gate[K]) remember(key K, e *expectation) {
	switch {
	case g.enqueue == nil:
	case e.want == gone || e.want == ending:
		g.keepCreated(key, func(c *expectation) bool { return c.object.UID != e.object.UID })
	case e.created && e.want == present && len(g.created) < maxCreated:
		if g.created == nil {
			g.created = make(map[K][]*expectation)
		}
		g.created[key] = append(g.created[key], e)
		g.wake()
	}
}

func (g *gate[K]) keepCreated(key K, keep func(*expectation) bool) {
	all := g.created[key]
	if all = slices.DeleteFunc(all, func(e *expectation) bool { return !keep(e) }); len(all) > 0 {
		g.created[key] = all
	} else {
		delete(g.created, key)
	}
}

// comeBack enqueues the keys whose objects were deleted before a cache has seen them. It returns the number of keys with
// objects that no cache has shown yet.
func (g *gate[K]) comeBack() int {
	caches := g.caches()
	var lost []K
	g.mu.Lock()
	for key := range g.created {
		if g.takeLost(key, caches) {
			lost = append(lost, key)
		}
	}
	left := len(g.created)
	g.mu.Unlock()
	for _, key := range lost {
		g.enqueue(key, workqueue.Normal)
	}
	return left
}

// takeLost forgets the creations that caches have shown, or never will, and reports whether there were any of the latter.
// The caller holds mu.
func (g *gate[K]) takeLost(key K, caches []cacheView) (lost bool) {
	g.keepCreated(key, func(e *expectation) bool {
		switch g.verdict(e, caches) {
		case past:
			lost = lost || g.isMissed(e, caches)
		case behind, unclear:
			return true
		}
		return false
	})
	return lost
}

// isMissed reports whether a cache of the write's cluster covers the object and does not hold it.
func (g *gate[K]) isMissed(e *expectation, caches []cacheView) bool {
	if e.in != nil {
		return e.isMissedBy(e.in)
	}
	return slices.ContainsFunc(caches, func(cache cacheView) bool {
		return cache.tracks(e.resource) && g.relationOf(e, cache) == sameCluster && e.isMissedBy(cache)
	})
}

func (e *expectation) isMissedBy(cache cacheView) bool {
	covers, _ := e.coveredBy(cache)
	held, ok := cache.state(e.key())
	return covers && (!ok || held.uid != e.object.UID)
}
