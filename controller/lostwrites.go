package controller

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/apiwrite"
	"github.com/tidings/tidings/object"
)

// tracks reports whether a cache may have to see writes to objects of the resource.
func (g *gate) tracks(r schema.GroupResource) bool {
	if g.maxWait < 0 || g.sources == nil {
		return false
	}
	for _, s := range g.sources() {
		if s.tracks(r) {
			return true
		}
	}
	return false
}

// held returns, for each source, the uid of the object that its cache holds before a request.
func (g *gate) held(r apiwrite.Request) []types.UID {
	if r.Name == "" {
		return nil
	}
	sources := g.sources()
	uids := make([]types.UID, len(sources))
	for i, s := range sources {
		if s.tracks(r.Resource) {
			uids[i] = s.heldUID(object.Key{Namespace: r.Namespace, Name: r.Name})
		}
	}
	return uids
}

// isOutdated reports whether a cache cannot show that it has seen the write.
func (g *gate) isOutdated(n *note) bool {
	for i, s := range g.sources() {
		if s.tracks(n.request.Resource) && s.isOutdated(n, i) {
			return true
		}
	}
	return false
}

// addNoted records the write for all caches that have to see it.
func (g *gate) addNoted(key object.Key, n *note) {
	for i, s := range g.sources() {
		if !s.tracks(n.request.Resource) {
			continue
		}
		if w := s.noted(n, i); w != nil {
			g.add(key, w)
		}
	}
}

// lookUp looks up the outcomes of the key's writes of which it is not known.
func (g *gate) lookUp(ctx context.Context, key object.Key) {
	for _, w := range g.lost(key) {
		g.lookups.Add(1)
		if w.note.lookUp(ctx) == nil {
			g.addNoted(key, w.note)
			g.drop(key, w)
		}
	}
}

// lost returns the key's writes that are to be looked up now.
func (g *gate) lost(key object.Key) []*lostOutcome {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	lost := g.pending[key].lost(now)
	for _, w := range lost {
		w.next = now.Add(lookupEvery)
	}
	return lost
}

func (g *gate) drop(key object.Key, w write) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.pending[key]; p != nil {
		p.lasting = slices.DeleteFunc(p.lasting, func(other write) bool { return other == w })
	}
}

// lost returns the writes that are to be looked up now.
func (p *writes) lost(now time.Time) (lost []*lostOutcome) {
	if p == nil {
		return nil
	}
	for _, w := range p.lasting {
		if w, ok := w.(*lostOutcome); ok && !now.Before(w.next) {
			lost = append(lost, w)
		}
	}
	return lost
}
