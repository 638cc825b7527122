package controller

import (
	"context"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// startLookUps looks up what blocked keys wait for and is due, or of the given keys, a few at the same time. started
// counts the goroutines.
func (g *gate[K]) startLookUps(ctx context.Context, started *sync.WaitGroup, keys ...K) {
	caches := g.caches()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		g.startLookUpsOf(ctx, started, g.pending[key], caches)
	}
	if keys != nil {
		return
	}
	for key := range g.blocked {
		g.startLookUpsOf(ctx, started, g.pending[key], caches)
	}
}

func (g *gate[K]) startLookUpsOf(ctx context.Context, started *sync.WaitGroup, p *writes, caches []cacheView) {
	now := time.Now()
	if p == nil || !now.Before(p.until) {
		return
	}
	for _, e := range p.all {
		if g.running == lookupsAtOnce {
			return // whoever ends makes run look again
		}
		o := e.from
		if o == nil || o.running || now.Before(o.next) {
			continue
		}
		if v := g.verdict(e, caches); v != unclear && (v != behind || now.Before(o.doubted)) {
			continue
		}
		g.running++
		o.running = true
		g.lookups.Add(1)
		if cache := g.foreignCacheOf(e, caches); cache != nil {
			started.Go(func() { g.compareClusters(ctx, o, cache) })
			continue
		}
		started.Go(func() {
			held := o.deletable(caches)
			g.resolve(o, o.lookUp(ctx), held)
		})
	}
}

// ended records the end of a look-up. The caller holds mu.
func (g *gate[K]) ended(o *origin) {
	g.running--
	o.running = false
	g.cacheChanged()
	g.wake()
}

// resolve puts what was found by a look-up in place of what it answers. held is what caches held before it.
func (g *gate[K]) resolve(o *origin, a finding, held []heldObject) {
	caches := g.caches()
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.ended(o)
	now := time.Now()
	o.next = now.Add(lookupEvery)
	if a.err != nil && !(o.refused && a.forbidden) {
		return
	}
	contradicted := false
	var found []filed[K]
	for key, p := range g.pending {
		kept := make([]*expectation, 0, len(p.all))
		for _, e := range p.all {
			if e.from != o {
				kept = append(kept, e)
				continue
			}
			next, replaced, against := g.answered(e, a, held, caches)
			contradicted = contradicted || against
			if replaced {
				kept = append(kept, e.implied...)
			} else {
				kept = append(kept, e)
			}
			for _, e := range next {
				found = append(found, filed[K]{key, e, p.until})
			}
		}
		p.all = kept
	}
	o.countUndone(contradicted, now)
	for _, f := range found {
		if g.fileUnder != nil {
			f.key = g.fileUnder(f.e)
		}
		f.e.observe(caches)
		g.file(f.key, f.e, f.until, caches)
		g.remember(f.key, f.e)
	}
}

// filed is an expectation with what it is filed under.
type filed[K comparable] struct {
	key   K
	e     *expectation
	until time.Time
}

// countUndone counts the look-ups in a row that contradict the write.
func (o *origin) countUndone(contradicted bool, now time.Time) {
	if contradicted {
		o.undone++
		o.doubted = o.next
	} else {
		o.undone, o.doubted = 0, now.Add(lookupAfter)
	}
}

// answered returns what is to be expected after a look-up. replaced is set if that is instead of e, and contradicts if the
// server has something else than the write has left. It takes several in a row to believe that: one may have come from a
// replica of the server that is behind.
func (g *gate[K]) answered(e *expectation, a finding, held []heldObject, caches []cacheView) (next []*expectation, replaced, contradicts bool) {
	if a.err != nil { // nothing was written, as far as anybody can tell
		return nil, true, false
	}
	if e.want == unknown && e.object.Name == "" {
		return g.listed(e, a, held, caches), true, false
	}
	now, exists := a.objects[e.object.Name]
	is := state{}
	if exists {
		is = stateOf(now)
	}
	switch {
	case e.want == unknown || e.want == absent && exists:
	case e.want == absent:
		return nil, false, false
	case e.guessed && !(exists && is.uid == e.object.UID && !is.ending): // it was another object, or is gone
	case e.unlabeled && exists && !e.contradicts(is, true):
	case !e.contradicts(is, exists):
		return nil, false, false
	case e.from.undone+1 < undoneTimes:
		return nil, false, true
	}
	return []*expectation{e.found(now, e.from.again(e.object.Name))}, true, false
}

// listed returns what is expected of a collection in which an unknown object was created, or of which unknown objects were
// deleted: what the caches lack of it, and the end of what they hold.
func (g *gate[K]) listed(e *expectation, a finding, held []heldObject, caches []cacheView) (next []*expectation) {
	for name, o := range a.objects {
		found := e.found(o, e.from.again(name))
		if v := g.verdict(found, caches); strings.HasPrefix(name, e.from.prefix) && v != past && v != shown {
			next = append(next, found)
		}
	}
	if !e.from.request.IsDeleteCollection() {
		return next
	}
	for _, h := range held {
		if now := a.objects[h.key.Name]; now == nil || now.UID != h.uid {
			end := e.found(nil, e.from.again(h.key.Name))
			end.want, end.before, end.certain = gone, nil, !e.from.isSelective() // else it may have left the selector
			end.object = metav1.ObjectMeta{Namespace: h.key.Namespace, Name: h.key.Name, UID: h.uid, ResourceVersion: h.version}
			next = append(next, end)
		}
	}
	return append(next, g.createdBefore(e, a)...)
}

// createdBefore returns what is expected of objects of the collection that caches may not hold yet: each is to be looked
// up, since nobody may know its labels.
func (g *gate[K]) createdBefore(e *expectation, a finding) (next []*expectation) {
	for _, p := range g.pending {
		for other := range p.every() {
			if other.want != present || other.noted > e.noted || other.resource != e.resource || a.objects[other.object.Name] != nil ||
				!e.from.sameServer(other.from) || other.object.Namespace != e.object.Namespace {
				continue
			}
			ask := e.found(nil, e.from.again(other.object.Name))
			ask.want, ask.object.Name, ask.object.UID, ask.from.next = unknown, other.object.Name, other.object.UID, time.Time{}
			next = append(next, ask)
		}
	}
	return next
}
