package source

import (
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/testseed"
)

// randomShard returns some of n shards.
func randomShard(random *rand.Rand, n int) Shard {
	s := Shard{By: []ShardField{"", ShardByUID, ShardByNamespace}[random.IntN(3)], Of: n, Indexes: []int{random.IntN(n)}}
	for random.IntN(3) > 0 {
		s.Indexes = append(s.Indexes, random.IntN(n))
	}
	return s
}

// parsedShard reads a shardSelector as a server does.
func parsedShard(t *testing.T, text string) sharding.Selector {
	t.Helper()
	var ranges []sharding.ShardRangeRequirement
	for term := range strings.SplitSeq(text, " || ") {
		inner, ok := strings.CutPrefix(strings.TrimSuffix(term, ")"), "shardRange(")
		parts := strings.Split(inner, ", ")
		if !ok || len(parts) != 3 {
			t.Fatalf("%q is no selector", text)
		}
		start, end := strings.Trim(parts[1], "'"), strings.Trim(parts[2], "'")
		r := sharding.ShardRangeRequirement{Key: parts[0], Start: start, End: end}
		if !sharding.HexLess(r.Start, r.End) || len(r.Start) != 18 {
			t.Fatalf("%q has an empty range", text)
		}
		ranges = append(ranges, r)
	}
	return sharding.NewSelector(ranges...)
}

// TestShardFilter compares the filter with the selector that is sent to the server, and with what a shard should be: each
// object is in exactly one of n.
func TestShardFilter(t *testing.T) {
	random := testseed.Rand(t)
	for range 300 {
		n := 1 + random.IntN(40)
		s := randomShard(random, n)
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		filter, selector := newShardFilter(s), parsedShard(t, s.String())
		for range 30 {
			var pod corev1.Pod
			pod.Namespace, pod.UID = strings.Repeat("n", random.IntN(9)), types.UID(strings.Repeat("u", random.IntN(9)))
			for range random.IntN(20) {
				pod.UID += types.UID(rune('a' + random.IntN(26)))
			}
			in := 0
			for i := range n {
				if !newShardFilter(Shard{By: s.By, Of: n, Indexes: []int{i}}).excludes(pod.Namespace, string(pod.UID)) {
					in++
				}
			}
			if in != 1 {
				t.Fatalf("%q %q is in %d of %d shards", pod.Namespace, pod.UID, in, n)
			}
			want, err := selector.Matches(&pod)
			if err != nil {
				t.Fatal(err)
			}
			if got := !filter.excludes(pod.Namespace, string(pod.UID)); got != want {
				t.Fatalf("%+v has %q %q: %v, but %s: %v", s, pod.Namespace, pod.UID, got, s, want)
			}
		}
	}
}

func TestShardText(t *testing.T) {
	const half, quarter = "0x8000000000000000", "0xc000000000000000"
	const zero, end = "0x0000000000000000", "0x10000000000000000"
	term := func(field ShardField, start, end string) string {
		return "shardRange(" + string(field) + ", '" + start + "', '" + end + "')"
	}
	for want, s := range map[string]Shard{
		"":                                {},
		term(ShardByUID, zero, end):       {Of: 1, Indexes: []int{0}},
		term(ShardByNamespace, half, end): {By: ShardByNamespace, Of: 2, Indexes: []int{1}},
		term(ShardByUID, zero, half) + " || " + term(ShardByUID, quarter, end): {Of: 4, Indexes: []int{3, 1, 0, 1}},
	} {
		if got := s.String(); got != want {
			t.Errorf("%+v is %q, want %q", s, got, want)
		}
	}
	for want, s := range map[string]Shard{
		"shards by":          {By: "spec.nodeName", Of: 2, Indexes: []int{1}},
		"none of 2":          {Of: 2},
		"no shard 2 of 2":    {Of: 2, Indexes: []int{0, 2}},
		"no shard -1 of 2":   {Of: 2, Indexes: []int{-1}},
		"no shard 0 of 0":    {Indexes: []int{0}},
		"-1 shards; want 0":  {Of: -1},
		"10001 shards; want": {Of: MaxShards + 1, Indexes: []int{0}},
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}
