package controller

import (
	"context"
	"fmt"
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

// noted appends the writes that caches have to see.
func (g *gate) noted(all []write, n *note) []write {
	for i, s := range g.sources() {
		if !s.tracks(n.request.Resource) {
			continue
		}
		if w := s.noted(n, i); w != nil {
			all = append(all, w)
		}
	}
	return all
}

// lookUp looks up those of the key's writes whose outcome is not known, or may have been undone.
func (g *gate) lookUp(ctx context.Context, key object.Key) {
	for _, w := range g.takeDue(key) {
		g.lookups.Add(1)
		if n := w.lookUp(ctx); g.settles(w, n) {
			g.replace(key, w.from(), g.noted(nil, n)...)
		}
	}
}

// settles reports whether the result of a look-up is to be waited for instead of the write. It takes several in a row
// to contradict what the server has confirmed: one may have come from a replica that is behind.
func (g *gate) settles(w write, n *note) bool {
	if _, lost := w.(*lostOutcome); lost {
		return n != nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	o := w.from()
	if n == nil {
		o.undone = 0
		return false
	}
	o.undone++
	o.next = time.Now().Add(lookupEvery)
	return o.undone >= undoneTimes
}

// takeDue returns the key's writes that are to be looked up now. The others wait for their turn.
func (g *gate) takeDue(key object.Key) []write {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	due := g.pending[key].due(now)
	for _, w := range due {
		pause := lookupAfter
		if _, lost := w.(*lostOutcome); lost {
			pause = lookupEvery
		}
		w.from().next = now.Add(pause)
	}
	return due
}

// due returns the writes that are to be looked up now, one for each origin. There are none once waiting has ended.
func (p *writes) due(now time.Time) (due []write) {
	if p == nil || !now.Before(p.until) {
		return nil
	}
	for _, all := range [...][]write{p.lasting, p.transient} {
		for _, w := range all {
			o := w.from()
			same := func(other write) bool { return other.from() == o }
			if o != nil && !now.Before(o.next) && !w.seen() && !slices.ContainsFunc(due, same) {
				due = append(due, w)
			}
		}
	}
	return due
}

// drop drops the writes of the origin.
func (p *writes) drop(o *origin) {
	if o == nil {
		return
	}
	of := func(w write) bool { return w.from() == o }
	p.lasting = slices.DeleteFunc(p.lasting, of)
	p.transient = slices.DeleteFunc(p.transient, of)
}

// lostOutcome is a write of which nobody knows yet whether it was carried out, or at which version.
type lostOutcome struct {
	*origin
	note *note
}

func (w *lostOutcome) seen() bool { return false }

func (w *lostOutcome) lasting() bool { return true }

func (w *lostOutcome) covers(write) bool { return false }

// lookUp asks for the object after the write; for what is known to be gone, for collections and for generated names,
// it asks for a version.
func (w *lostOutcome) lookUp(ctx context.Context) *note {
	name := w.name
	if w.note.kind == removed {
		name = ""
	}
	now := &note{origin: w.origin.again(), options: w.note.options, before: w.note.before}
	a, err := w.ask(ctx, name)
	switch {
	case err != nil:
		return nil
	case a.IsStatus:
		now.kind = removed
		now.object.Namespace, now.object.Name = w.request.Namespace, name
	case a.IsList:
		now.kind, now.object, now.version = w.note.kind, w.note.object, a.Version
	default:
		now.kind, now.object = stored, a.Object
	}
	return now
}

func (w *lostOutcome) String() string {
	return fmt.Sprintf("%s: %s of %s, whose outcome is not known", w.request.Resource, w.request.Method,
		object.Key{Namespace: w.request.Namespace, Name: w.request.Name})
}
