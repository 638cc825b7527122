package shards

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/tidings/tidings/object"
)

// observations are the versions of the members' Leases, and when this replica has seen them first.
type observations struct {
	mu     sync.Mutex
	byName map[string]observation
}

type observation struct {
	uid, version string
	at           time.Time
}

// note records a Lease that was listed, or, unless it is older than the one known, watched. It reports whether it is the
// first of this name.
func (o *observations) note(lease *coordinationv1.Lease, listed bool) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byName == nil {
		o.byName = make(map[string]observation)
	}
	held, known := o.byName[lease.Name]
	older := !listed && object.OlderResourceVersion(lease.ResourceVersion, held.version)
	if known && held.uid == string(lease.UID) && (held.version == lease.ResourceVersion || older) {
		return false
	}
	o.byName[lease.Name] = observation{string(lease.UID), lease.ResourceVersion, time.Now()}
	return !known
}

// keep forgets all Leases but those of the members and of the table.
func (o *observations) keep(members map[string]member, table string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name := range o.byName {
		if _, ok := members[name]; !ok && name != table {
			delete(o.byName, name)
		}
	}
}

// left returns for how long the Lease has to stay unchanged before its owner counts as gone, and since when it is
// unchanged.
func (o *observations) left(lease *coordinationv1.Lease, least time.Duration) (left time.Duration, since time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	held := o.byName[lease.Name]
	if held.version != lease.ResourceVersion || held.uid != string(lease.UID) {
		return least, time.Now()
	}
	promised := least
	if s := lease.Spec.LeaseDurationSeconds; s != nil {
		promised = max(promised, time.Duration(*s)*time.Second)
	}
	return time.Until(held.at.Add(promised)), held.at
}
