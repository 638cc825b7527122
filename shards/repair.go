package shards

import (
	"context"
	"fmt"
)

// repair writes the table again after somebody has made it unreadable. What each member has, only it knows for certain, so
// all members first say that in their Leases, beside the version of the unreadable table. Until another version comes,
// they take nothing up. So once all have said so in one list, the shards that nobody has are free.
func (t *term) repair(ctx context.Context, v *view) error {
	t.declare(v.table.lease.ResourceVersion)
	owners, silent := v.claimed(t.layout(), t.Shards)
	switch {
	case v.leader != "":
		return fmt.Errorf("%w; waiting until %s has gone, the leader of an election", v.unreadable, v.leader)
	case silent != "":
		return fmt.Errorf("%w; waiting until %s has said what it has", v.unreadable, silent)
	}
	if err := t.writeTable(ctx, v.table, owners); err != nil {
		return err
	}
	t.Logger.Warn("repaired the table of shards", "was", v.unreadable)
	t.look()
	return nil
}

// declare says what this member has. What it may have given away already, by a write with an unknown outcome, it gives up:
// nothing runs there.
func (t *term) declare(version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	has := &table{owners: make([]string, t.Shards)}
	for s, h := range t.held {
		if h.draining && h.running == 0 && t.uncertain != "" {
			delete(t.held, s)
			t.stats.Given++
			continue
		}
		has.owners[s] = t.name
	}
	claims := version + " " + has.text()
	if claims == t.claims {
		return
	}
	t.claims = claims
	select {
	case t.say <- struct{}{}:
	default:
	}
}

func (t *term) currentClaims() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.claims
}

// hasShards reports whether this member has shards.
func (t *term) hasShards() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.held) > 0
}
