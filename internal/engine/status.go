package engine

import (
	"time"

	"github.com/tidings/tidings/internal/memory"
	"github.com/tidings/tidings/internal/saved"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// Status is an informer's state at one moment. Taking it is cheap, and delays no change.
type Status struct {
	Started, Stopped, Synced     bool
	ResourceVersion              string
	Objects                      int
	Parts                        []PartStatus
	Handlers                     []HandlerStatus
	Mutations                    uint64
	IndexPanics, TransformErrors uint64
	LeftOut                      int // by the transform, at present
	ReportsDropped               uint64
	Memory                       memory.Status
}

// PartStatus is the state of one list and watch.
type PartStatus struct {
	Namespace       string
	ResourceVersion string
	// Age is the time since the server was last heard from, or since the part was created.
	Age       time.Duration
	Reflector reflector.Status
	Source    source.Stats
	File      saved.Status
	Audit     AuditStatus
}

// Status returns the informer's status.
func (inf *Informer[T]) Status() Status {
	now := time.Now()
	snap := inf.store.Snapshot()
	st := Status{
		Synced: inf.HasSynced(), ResourceVersion: snap.ResourceVersion(), Objects: snap.Len(),
		Mutations: inf.guard.found.Load(), IndexPanics: inf.indexPanics.Load(), TransformErrors: inf.transformErrors.Load(),
		Memory: inf.memory.Status(snap),
	}
	if inf.reports != nil {
		st.ReportsDropped = inf.reports.Dropped()
	}
	inf.mu.Lock()
	st.Started, st.Stopped = len(inf.parts) > 0, inf.phase == stopping // it may have been stopped before it was started
	parts, subs := inf.parts, inf.subs
	inf.mu.Unlock()
	for _, p := range parts {
		ps := p.status(now)
		st.LeftOut += p.transform.leftOut.Len()
		ps.ResourceVersion = snap.ResourceVersionIn(p.namespace)
		st.Parts = append(st.Parts, ps)
	}
	for _, s := range subs {
		st.Handlers = append(st.Handlers, s.Status())
	}
	return st
}

// reflectorStatus is the reflector's status, which lags slightly behind the store, adjusted to the store's state.
func (p *part[T]) reflectorStatus() reflector.Status {
	begun := p.beginning.over()
	st := p.reflector.Status()
	switch {
	case !begun:
		st.SyncedSince = time.Time{} // a resumed watch may not have brought everything yet
	case st.SyncedSince.IsZero():
		st.SyncedSince = time.Now()
	}
	if st.Problem != nil && st.Problem == p.healing.resolved.Load() {
		st.Problem, st.Failures = nil, 0
	}
	return st
}

func (p *part[T]) status(now time.Time) PartStatus {
	st := PartStatus{Namespace: p.namespace, Reflector: p.reflectorStatus(), File: p.fileStatus()}
	heard := p.made
	if st.Reflector.LastContact.After(heard) {
		heard = st.Reflector.LastContact
	}
	if st.File.Serving {
		heard = st.File.AsOf // readers do not see what the server says now
	}
	st.Age = max(0, now.Sub(heard))
	st.Audit = p.audit.snapshot()
	if s, ok := p.source.(interface{ Stats() source.Stats }); ok {
		st.Source = s.Stats()
	}
	return st
}
