package shards

import "slices"

// holdings are what a member has itself: the shards that it may work on, and those of them that are draining.
type holdings struct {
	me     string // its Lease's name
	layout string
	// held is set for the shards that it has taken up and not given away. Of these, draining ones start nothing, and
	// idle ones have no work that runs.
	held, draining, idle func(shard int) bool
	// uncertain is set while a write of the table may still arrive.
	uncertain bool
}

// plan is what a member does after it has read the Leases.
type plan struct {
	// write are the owners in the table to be written; nil if there is nothing to write.
	write []string
	// take, drain and resume are the shards to take up, to end the work on, and to go on with after all.
	take, drain, resume []int
}

// planFor decides what the member does. v has no members that have expired.
func planFor(v *view, me holdings, shards int) (p plan) {
	if v.foreign(me.layout) != "" {
		return plan{}
	}
	candidates := slices.DeleteFunc(v.inLayout(me.layout), func(m member) bool { return m.leaving })
	next, changed := make([]string, shards), v.table == nil
	for s := range shards {
		owner := ""
		if v.table != nil && v.table.layout == me.layout {
			owner = v.table.owners[s]
		}
		want := rendezvous(candidates, s)
		next[s] = owner
		_, alive := v.members[owner]
		switch {
		case owner != me.me:
			if !alive {
				next[s] = want
			}
		case !me.held(s) && want == me.me:
			p.take = append(p.take, s)
		case !me.held(s):
			next[s] = want
		case !me.draining(s):
			if want != me.me {
				p.drain = append(p.drain, s)
			}
		case want == me.me:
			if changed = changed || me.uncertain; !me.uncertain {
				p.resume = append(p.resume, s)
			}
		case me.idle(s):
			next[s] = want
		}
		changed = changed || next[s] != owner
	}
	if v.table != nil && (v.table.layout != me.layout || !v.table.isMarked()) {
		changed = true
	}
	if changed && len(candidates) > 0 {
		p.write = next
	}
	return p
}
