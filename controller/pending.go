package controller

import (
	"iter"
	"slices"
	"time"
)

// writes are what is expected after the writes made for one key. All of it has to be seen at the same time.
type writes struct {
	all []*expectation
	// until is when waiting for them ends.
	until time.Time
}

// add adds an expectation, in place of those that it implies. It keeps those of other objects: a look-up may show that the
// write of e was undone, which says nothing of theirs.
func (p *writes) add(e *expectation, caches []cacheView) {
	p.all = slices.DeleteFunc(p.all, func(other *expectation) bool {
		if !e.implies(other, caches) {
			return false
		}
		e.implied = append(append(e.implied, other.implied...), other)
		other.implied = nil
		return true
	})
	e.implied = slices.DeleteFunc(e.implied, func(other *expectation) bool { return other.object.UID == e.object.UID })
	p.all = append(p.all, e)
}

// every iterates over all that is expected, including what other expectations imply.
func (p *writes) every() iter.Seq[*expectation] {
	return func(yield func(*expectation) bool) {
		for _, e := range p.all {
			for _, implied := range e.implied {
				if !yield(implied) {
					return
				}
			}
			if !yield(e) {
				return
			}
		}
	}
}

// verdict returns how the caches show the expectation: as well as the one that shows it least.
func (g *gate[K]) verdict(e *expectation, caches []cacheView) verdict {
	if e.in != nil {
		return e.seen(e.in)
	}
	worst := past
	for _, cache := range caches {
		if !cache.tracks(e.resource) {
			continue
		}
		switch g.relationOf(e, cache) {
		case sameCluster:
			worst = max(worst, e.seen(cache))
		case unknownCluster:
			worst = unclear
		}
	}
	return worst
}

// unseen returns an expectation that a cache does not show, or nil. It forgets those that all caches are past.
func (g *gate[K]) unseen(p *writes, caches []cacheView) *expectation {
	kept := 0
	var missing *expectation
	for i, e := range p.all {
		v := past
		if missing != nil {
			v = shown // not of interest
		} else if v = g.verdict(e, caches); v == past || v == unclear && e.want == absent && !time.Now().Before(p.until) {
			continue // once nobody waits any more, it is an object that has come since
		} else if v != shown {
			missing = e
		}
		p.all[kept] = p.all[i]
		kept++
	}
	clear(p.all[kept:])
	p.all = p.all[:kept]
	return missing
}

// isSettled reports whether all caches are past all that is expected.
func (g *gate[K]) isSettled(p *writes, caches []cacheView) bool {
	return g.unseen(p, caches) == nil && len(p.all) == 0
}

// observe makes the caches that the expectation concerns follow their versions from now on.
func (e *expectation) observe(caches []cacheView) {
	if e.in != nil {
		e.in.version(e.object.Namespace)
		return
	}
	for _, cache := range caches {
		if cache.tracks(e.resource) {
			cache.version(e.object.Namespace)
		}
	}
}
