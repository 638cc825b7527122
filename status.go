package tidings

import (
	"time"

	"github.com/tidings/tidings/deltafifo"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// Status is an informer's state at one moment. It is cheap to take: nothing that a change passes through waits.
type Status struct {
	// Resource is the informer's name, such as "pods" or "widgets.example.com".
	Resource string
	// Scope tells informers of one resource apart, such as "namespaces=a,b labels=app=web"; empty for the whole
	// resource.
	Scope string
	// Started and Synced say how far the informer has come. Synced stays true once the initial list is in.
	Started, Synced bool
	// Stale is set when the server has not been heard of for longer than Options.StaleAfter, or the
	// informer has not synced.
	Stale bool
	// Age is the time since the server was last heard of (an answer, an event or a bookmark), by the part of
	// the informer that has waited longest.
	Age time.Duration
	// ResourceVersion is the version that the store is current to.
	ResourceVersion string
	// Objects is how many objects the store holds.
	Objects int
	// Parts has one entry for each namespace of the scope; a single one for all namespaces.
	Parts []PartStatus
	// Queue is what waits to be applied to the store.
	Queue deltafifo.Stats
	// Handlers has one entry for each handler, in the order in which they were added.
	Handlers []HandlerStatus
	// Mutations is how often the mutation guard has caught somebody writing to a cached object.
	Mutations uint64
	// IndexPanics and TransformErrors count what went wrong in the user's functions.
	IndexPanics, TransformErrors uint64
}

// PartStatus is the state of one list and watch.
type PartStatus struct {
	// Namespace is empty for all namespaces and for cluster-scoped resources.
	Namespace string
	// Reflector tells what the list and watch is doing.
	Reflector reflector.Status
	// Source counts bytes and objects read; zero for sources that do not count.
	Source source.Stats
}

// HandlerStatus is the state of one handler.
type HandlerStatus struct {
	Name   string
	Policy Policy
	// Pending is how many deltas have arrived that the handler has not been called for.
	Pending int
	// Lag is how long the oldest of them has waited.
	Lag time.Duration
	// Delivered counts the calls, Panics those that panicked.
	Delivered, Panics uint64
}

// Age and staleness are taken over all parts: the picture is as old as its oldest part.
func (c *core[T]) status(now time.Time) Status {
	snap := c.store.Snapshot()
	st := Status{
		Resource: c.name, Scope: c.scope, ResourceVersion: snap.ResourceVersion(), Objects: snap.Len(), Queue: c.queue.Stats(),
		Mutations: c.guard.found.Load(), IndexPanics: c.indexPanics.Load(), TransformErrors: c.transformErrors.Load(),
	}
	c.mu.Lock()
	st.Started = c.phase != notStarted
	parts, subs := c.parts, c.subs
	c.mu.Unlock()
	st.Synced = c.hasSynced()
	for _, p := range parts {
		ps := p.status()
		st.Parts = append(st.Parts, ps)
		st.Age = max(st.Age, p.age(ps.Reflector, now))
	}
	for _, s := range subs {
		st.Handlers = append(st.Handlers, s.status(now))
	}
	st.Stale = !st.Synced || st.Age > c.opts.StaleAfter
	return st
}
