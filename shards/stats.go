package shards

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Stats is a replica's state and its counters.
type Stats struct {
	// Name is the group's name, Identity this replica's.
	Name, Identity string
	// Shards is the number of shards, Held of those that this replica may work on, Draining of those that it is about to
	// give away, and Unowned of those that nobody has, as far as it knows.
	Shards, Held, Draining, Unowned int
	// Members is the number of replicas that share the shards, with this one.
	Members int
	// Waiting says why this replica takes no shards: there still are replicas that share others, or that elect a leader;
	// "" if it takes some.
	Waiting string
	// Running is the number of pieces of work that run.
	Running int
	// Gained and Given count the shards that this replica has taken up and given away, Losses how often it lost all.
	Gained, Given, Losses uint64
	// Renewals and RenewFailures count the attempts to renew the Lease, TableWrites the tables that were written, and
	// TableConflicts those that were not because somebody else had written one.
	Renewals, RenewFailures, TableWrites, TableConflicts uint64
	// LastRenewal is when the last successful renewal was sent.
	LastRenewal time.Time
	// LongestUnowned is the longest time that a shard was without an owner, as far as this replica knows: from the last
	// renewal of the one that has gone until the table named another.
	LongestUnowned time.Duration
}

// Stats returns the replica's state and counters.
func (r *Replica) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Name, s.Identity, s.Shards, s.Running, s.Unowned = r.Name, r.Identity, r.Shards, r.running, len(r.unowned)
	s.Waiting = r.waits
	for _, h := range r.held {
		if h.draining {
			s.Draining++
		} else if r.mayStart() {
			s.Held++
		}
	}
	return s
}

// Ready returns nil, or what is wrong: this replica does not take part, or a shard has been without an owner for longer
// than any failure should take. Before Lead it returns nil. A replica that waits for those of an earlier release to go is
// ready, as otherwise they might not be told to go.
func (r *Replica) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == nil {
		return nil
	}
	var errs []error
	if r.suspended {
		errs = append(errs, fmt.Errorf("shards %s: this replica does not take part, as its Lease is not renewed", r.Name))
	}
	late, longest := 0, time.Duration(0)
	for _, since := range r.unowned {
		if age := time.Since(since); age > r.Duration+time.Second {
			late, longest = late+1, max(longest, age)
		}
	}
	if late > 0 {
		longest = longest.Round(time.Second)
		errs = append(errs, fmt.Errorf("shards %s: %d shards are without an owner for up to %v", r.Name, late, longest))
	}
	return errors.Join(errs...)
}

// noteView records which shards are without an owner, and why this replica has none. The caller holds the replica's mu.
func (t *term) noteView(v *view) {
	t.stats.Members, t.others = 0, 0
	for _, m := range v.inLayout(t.layout()) {
		t.stats.Members++
		if m.name != t.name && !m.leaving {
			t.others++
		}
	}
	waits := ""
	if other := v.foreign(t.layout()); v.leader != "" {
		waits = fmt.Sprintf("waiting until %s, the leader of an election by the Lease %s, has gone", other, t.Name)
	} else if other != "" {
		waits = fmt.Sprintf("waiting until %s has gone, which shares other shards (%s) than this replica (%s)",
			other, v.table.layout, t.layout())
	}
	if waits != t.waits && waits != "" {
		t.Logger.Warn("taking no shards: " + waits)
	}
	t.waits = waits
	for s := range t.Shards {
		owner := ""
		if v.table != nil && v.table.layout == t.layout() {
			owner = v.table.owners[s]
		}
		if _, ok := v.members[owner]; !ok && waits == "" {
			t.noteUnownedSince(s, time.Now())
			continue
		}
		t.noteOwned(s)
	}
}

func (r *Replica) noteOwned(shard int) {
	if since, ok := r.unowned[shard]; ok {
		r.stats.LongestUnowned = max(r.stats.LongestUnowned, time.Since(since))
		delete(r.unowned, shard)
	}
}

func (r *Replica) noteUnownedSince(shard int, since time.Time) {
	if _, ok := r.unowned[shard]; !ok {
		r.unowned[shard] = since
	}
}

// noteUnowned records that a member was last seen at the given time.
func (t *term) noteUnowned(now *table, name string, since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now == nil {
		return
	}
	for s, owner := range now.owners {
		if owner == name {
			t.noteUnownedSince(s, since)
		}
	}
}

// noteWrite counts an attempt to write the table.
func (t *term) noteWrite(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		t.stats.TableWrites++
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		t.stats.TableConflicts++
	}
}
