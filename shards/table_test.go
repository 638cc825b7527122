package shards

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidings/tidings/internal/testseed"
)

// TestTableText writes random tables, and reads them.
func TestTableText(t *testing.T) {
	random := testseed.Rand(t)
	for range 500 {
		owners := make([]string, 1+random.IntN(60))
		for s := range owners {
			owners[s] = []string{"", "a-1", "b-22", "c"}[random.IntN(1+random.IntN(4))]
		}
		written := (&table{layout: "x", owners: owners}).next(nil, "group")
		read, err := readTable(written, len(owners))
		if err != nil || read.layout != "x" || read.count != 1 || !slices.Equal(read.owners, owners) {
			t.Fatalf("%v: read %+v, %v, from %v", owners, read, err, written.Annotations)
		}
		if again := read.next(read, "group"); *again.Spec.LeaseTransitions != 2 {
			t.Fatal("the next table has the same number")
		}
	}
	wrong := (&table{}).next(nil, "group")
	for _, text := range []string{"", "[]", `{"a":"x"}`, `{"a":"1-"}`, `{"a":""}`} {
		wrong.Annotations[ownersKey] = text
		if _, err := readTable(wrong, 3); err == nil {
			t.Errorf("%s is read as a table", text)
		}
	}
}

// TestRendezvous adds and removes members: only the shards of that member move. The shares are about as large as its
// documentation says.
func TestRendezvous(t *testing.T) {
	random := testseed.Rand(t)
	for range 50 {
		n := 1 + random.IntN(12)
		var members []member
		for range n {
			id := fmt.Sprint("replica-", random.Uint32())
			members = append(members, member{name: "lease of " + id, identity: id})
		}
		const shards = 500
		without := slices.Clone(members[1:])
		for s := range shards {
			with, before := rendezvous(members, s), rendezvous(without, s)
			if with != before && with != members[0].name {
				t.Fatalf("shard %d moves from %q to %q, but %q has come", s, before, with, members[0].name)
			}
		}
		shuffled := slices.Clone(members)
		random.Shuffle(n, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if s := random.IntN(shards); rendezvous(members, s) != rendezvous(shuffled, s) {
			t.Fatal("the order of the members matters")
		}
	}
}

// busiest returns the largest share of a member, relative to the average, in the average of many groups.
func busiest(random *rand.Rand, members, shards int) float64 {
	const groups = 200
	sum := 0.0
	for range groups {
		var all []member
		for range members {
			id := fmt.Sprint("replica-", random.Uint64())
			all = append(all, member{name: id, identity: id})
		}
		of, most := map[string]int{}, 0
		for s := range shards {
			owner := rendezvous(all, s)
			of[owner]++
			most = max(most, of[owner])
		}
		sum += float64(most) * float64(members) / float64(shards)
	}
	return sum / groups
}

func TestShares(t *testing.T) {
	random := testseed.Rand(t)
	for _, c := range []struct {
		members, shards int
		limit           float64
	}{{5, 50, 1.6}, {10, 100, 1.6}, {5, 500, 1.2}, {10, 1000, 1.2}} {
		got := busiest(random, c.members, c.shards)
		t.Logf("%d members, %d shards: the busiest has %.2f of the average", c.members, c.shards, got)
		if got > c.limit {
			t.Errorf("%d members, %d shards: the busiest has %.2f of the average", c.members, c.shards, got)
		}
	}
}

// TestShardOf has namespaces whose names differ at their ends only. It also holds the result to what it was, as replicas of
// two releases must agree.
func TestShardOf(t *testing.T) {
	in := map[int]int{}
	for i := range 1000 {
		in[ShardOf(fmt.Sprintf("team-%03d", i), 10)]++
	}
	for s := range 10 {
		if in[s] < 60 || in[s] > 140 {
			t.Errorf("%d of 1000 namespaces are in shard %d of 10", in[s], s)
		}
	}
	for text, want := range map[string]int{"": 42, "default": 85, "kube-system": 88, "team-1": 89} {
		if got := ShardOf(text, 100); got != want {
			t.Errorf("%q is in shard %d, was in %d", text, got, want)
		}
	}
}
