package shards

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// groupLabel is on all Leases of a group, with the group's name as its value.
	groupLabel = "tidings/shards"
	// layoutKey annotates the table, and the member Leases, with what the members have to agree on.
	layoutKey = "tidings/layout"
	// ownersKey annotates the table with the shards of each member: {"printer-4f1c": "0-4,9"}.
	ownersKey = "tidings/owners"
	// leavingKey annotates the Lease of a member that takes no more shards.
	leavingKey = "tidings/leaving"
	// claimsKey annotates the Lease of a member, while the table is unreadable, with the table's version and the shards
	// that the member has, in the notation of ownersKey.
	claimsKey = "tidings/claims"
	// tableHolder is the holder of the table's Lease, and tableSeconds the duration, about ten years. They keep an election
	// that uses the same Lease from having a leader beside the members.
	tableHolder  = "shards"
	tableSeconds = int32(10 * 365 * 24 * 60 * 60)
)

// table says which member owns which shard.
type table struct {
	layout string
	// owners has the name of a member's Lease, or "", for each shard. It is nil if the table is unreadable.
	owners []string
	// count is the number of tables before this one.
	count int32
	lease *coordinationv1.Lease // that it was read from
}

// readTable reads a table with the given number of shards. One with another layout may have others, which it drops. It
// returns an unreadable table as well. The Lease of an election is a table without owners.
func readTable(lease *coordinationv1.Lease, shards int) (*table, error) {
	t := &table{layout: lease.Annotations[layoutKey], lease: lease}
	if n := lease.Spec.LeaseTransitions; n != nil {
		t.count = *n
	}
	text := lease.Annotations[ownersKey]
	if text == "" && lease.Labels[groupLabel] == "" {
		text = "{}"
	}
	var err error
	if t.owners, err = readOwners(text, shards); err != nil {
		return t, fmt.Errorf("lease %s: annotation %s: %w", lease.Name, ownersKey, err)
	}
	return t, nil
}

// readOwners reads what text returns.
func readOwners(text string, shards int) ([]string, error) {
	owners := make([]string, shards)
	var byOwner map[string]string
	if err := json.Unmarshal([]byte(text), &byOwner); err != nil {
		return nil, err
	}
	for owner, list := range byOwner {
		for part := range strings.SplitSeq(list, ",") {
			first, last, err := parseRange(part)
			if err != nil {
				return nil, err
			}
			for s := first; s <= last && s < shards; s++ {
				owners[s] = owner
			}
		}
	}
	return owners, nil
}

func parseRange(text string) (first, last int, err error) {
	from, to, isRange := strings.Cut(text, "-")
	if first, err = strconv.Atoi(from); err != nil || !isRange {
		return first, first, err
	}
	last, err = strconv.Atoi(to)
	return first, last, err
}

// next returns the Lease of the table, as the one that comes after before, which is nil if there was none.
func (t *table) next(before *table, group string) *coordinationv1.Lease {
	lease, count := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: group}}, int32(1)
	if before != nil {
		lease, count = before.lease.DeepCopy(), before.count+1
	}
	metav1.SetMetaDataLabel(&lease.ObjectMeta, groupLabel, group)
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, layoutKey, t.layout)
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, ownersKey, t.text())
	holder, seconds := tableHolder, tableSeconds
	lease.Spec.LeaseTransitions, lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &count, &holder, &seconds
	return lease
}

// isMarked reports whether the Lease says whose it is.
func (t *table) isMarked() bool {
	return t.lease.Labels[groupLabel] != "" && holderOf(t.lease) == tableHolder
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// text returns the owners as JSON.
func (t *table) text() string {
	byOwner := map[string]string{}
	for s := 0; s < len(t.owners); {
		first, owner := s, t.owners[s]
		for s < len(t.owners) && t.owners[s] == owner {
			s++
		}
		if owner == "" {
			continue
		}
		part := strconv.Itoa(first)
		if s-1 > first {
			part += "-" + strconv.Itoa(s-1)
		}
		if byOwner[owner] != "" {
			part = byOwner[owner] + "," + part
		}
		byOwner[owner] = part
	}
	data, _ := json.Marshal(byOwner) // strings cannot fail
	return string(data)
}

// member is a replica that takes part, as its Lease says.
type member struct {
	name, identity, layout string
	leaving                bool
	lease                  *coordinationv1.Lease
}

func readMember(lease *coordinationv1.Lease) member {
	m := member{name: lease.Name, identity: holderOf(lease), layout: lease.Annotations[layoutKey], lease: lease}
	m.leaving = lease.Annotations[leavingKey] != ""
	return m
}

// view is the state of all Leases at one moment.
type view struct {
	table      *table            // nil if there is none
	unreadable error             // why the table is, or nil
	members    map[string]member // by the names of their Leases
	leader     string            // who holds the table's Lease, if that belongs to an election
}

func readView(list *coordinationv1.LeaseList, group string, shards int) *view {
	v := &view{members: make(map[string]member)}
	for i := range list.Items {
		lease := &list.Items[i]
		if lease.Name == group {
			v.table, v.unreadable = readTable(lease, shards)
		} else {
			v.members[lease.Name] = readMember(lease)
		}
	}
	return v
}

// claimed returns what all members have, as they say since the table is unreadable, or a member that has not said so.
func (v *view) claimed(layout string, shards int) (owners []string, silent string) {
	owners = make([]string, shards)
	for _, name := range slices.Sorted(maps.Keys(v.members)) {
		m := v.members[name]
		version, text, _ := strings.Cut(m.lease.Annotations[claimsKey], " ")
		claims, err := readOwners(text, shards)
		otherShards := m.layout != layout && text != "{}"
		if version != v.table.lease.ResourceVersion || err != nil || otherShards {
			return nil, m.identity
		}
		for s, owner := range claims {
			if owner == name {
				owners[s] = owner
			}
		}
	}
	return owners, ""
}

// inLayout returns the members with a layout, in the order of their names.
func (v *view) inLayout(layout string) []member {
	var found []member
	for _, name := range slices.Sorted(maps.Keys(v.members)) {
		if m := v.members[name]; m.layout == layout {
			found = append(found, m)
		}
	}
	return found
}

// foreign returns a leader or a member because of which the table of another layout has to stay, or "".
func (v *view) foreign(layout string) string {
	if v.leader != "" {
		return v.leader
	}
	if v.table == nil || v.table.layout == layout {
		return ""
	}
	if of := v.inLayout(v.table.layout); len(of) > 0 {
		return of[0].identity
	}
	return ""
}

// rendezvous returns the name of the member that should own the shard, or "" if there is none: the one whose identity and
// the shard together have the highest hash. So a member that comes takes shards for itself only, and one that goes leaves
// only its own to others.
func rendezvous(members []member, shard int) string {
	best, highest := "", uint64(0)
	for _, m := range members {
		if h := mixed(hashOf(m.identity) ^ mixed(uint64(shard)+1)); best == "" || h > highest {
			best, highest = m.name, h
		}
	}
	return best
}

// ShardOf returns the shard, below the given number of shards, that a text belongs to. It never changes from one release
// to the next.
func ShardOf(text string, shards int) int {
	return int(mixed(hashOf(text)) % uint64(max(shards, 1)))
}

func hashOf(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// mixed lets each bit of the result depend on all bits of h. In FNV's hashes of short texts, most bits hardly depend on
// the last characters, which are those in which the names of namespaces differ.
func mixed(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
