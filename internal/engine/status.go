package engine

import (
	"time"

	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// Status is an informer's state at one moment. It is cheap to take: nothing that a change passes through waits.
type Status struct {
	Started, Stopped, Synced     bool
	ResourceVersion              string
	Objects                      int
	Parts                        []PartStatus
	Handlers                     []HandlerStatus
	Mutations                    uint64
	IndexPanics, TransformErrors uint64
	ReportsDropped               uint64
	Memory                       MemoryStatus
}

// PartStatus is the state of one list and watch.
type PartStatus struct {
	Namespace       string
	ResourceVersion string
	// Age is the time since the server was last heard of, or since the part was made.
	Age       time.Duration
	Reflector reflector.Status
	Source    source.Stats
	File      FileStatus
	Audit     AuditStatus
}

// Status reports on the informer.
func (inf *Informer[T]) Status() Status {
	now := time.Now()
	snap := inf.store.Snapshot()
	st := Status{
		Synced: inf.HasSynced(), ResourceVersion: snap.ResourceVersion(), Objects: snap.Len(),
		Mutations: inf.guard.found.Load(), IndexPanics: inf.indexPanics.Load(), TransformErrors: inf.transformErrors.Load(),
		Memory: inf.memoryStatus(snap),
	}
	if inf.reports != nil {
		st.ReportsDropped = inf.reports.dropped.Load()
	}
	inf.mu.Lock()
	st.Started, st.Stopped = inf.phase != notStarted, inf.phase == stopping
	parts, subs := inf.parts, inf.subs
	inf.mu.Unlock()
	for _, p := range parts {
		ps := p.status(now)
		ps.ResourceVersion = snap.ResourceVersionIn(p.namespace)
		st.Parts = append(st.Parts, ps)
	}
	for _, s := range subs {
		st.Handlers = append(st.Handlers, s.Status())
	}
	return st
}

// noteOvercome notes that a list is in the store. What is wrong with the watch may still be.
func (p *part[T]) noteOvercome() {
	if problem := p.reflector.Status().Problem; problem != nil && problem.Phase != reflector.Watching {
		p.overcome.Store(problem)
	}
}

// reflectorStatus is the reflector's status, which follows the store a moment later, brought up to what is in the store.
func (p *part[T]) reflectorStatus() reflector.Status {
	listed := p.listed.Load()
	st := p.reflector.Status()
	switch {
	case !listed:
		st.SyncedSince = time.Time{} // what a resumed watch has brought may not be all
	case st.SyncedSince.IsZero():
		st.SyncedSince = time.Now()
	}
	if st.Problem != nil && st.Problem == p.overcome.Load() {
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
		heard = st.File.AsOf // what the server says now is not what readers see
	}
	st.Age = max(0, now.Sub(heard))
	st.Audit = p.audit.snapshot()
	if s, ok := p.source.(interface{ Stats() source.Stats }); ok {
		st.Source = s.Stats()
	}
	return st
}
