package source

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/tidings/tidings/internal/wire"
)

// ShardField is a field that objects are sharded by.
type ShardField string

// The fields by which API servers can shard. Neither changes during the life of an object.
const (
	ShardByUID       ShardField = "object.metadata.uid"
	ShardByNamespace ShardField = "object.metadata.namespace"
)

// MaxShards is the largest number of shards of a collection.
const MaxShards = 10_000

// Shard is a part of a collection: the objects whose field has its hash in some of the equal ranges that all hashes are
// divided into. The zero value is the whole collection. For example, Shard{Of: 3, Indexes: []int{0}} is the first third.
//
// The hash and the ranges are those of the API server's shardSelector, so a server that supports it sends nothing else.
// From other servers come all objects; what is not in the shard is dropped before it is decoded.
type Shard struct {
	// By is the field; empty means ShardByUID. By namespace, cluster-scoped objects are all in one shard, and namespaces
	// whose names differ only in their last characters often are.
	By ShardField
	// Of is the number of shards; 0 means that there are none.
	Of int
	// Indexes are those wanted, from 0 to Of-1.
	Indexes []int
}

// String returns the shard as a shardSelector; "" for the whole collection, or if there is no such shard.
func (s Shard) String() string {
	var terms []string
	for _, r := range s.ranges() {
		end := "0x10000000000000000"
		if r.last != math.MaxUint64 {
			end = fmt.Sprintf("0x%016x", r.last+1)
		}
		terms = append(terms, fmt.Sprintf("shardRange(%s, '0x%016x', '%s')", s.field(), r.first, end))
	}
	return strings.Join(terms, " || ")
}

// Check returns an error if there is no such shard.
func (s Shard) Check() error {
	switch {
	case s.By != "" && s.By != ShardByUID && s.By != ShardByNamespace:
		return fmt.Errorf("shards by %q; want %s or %s", s.By, ShardByUID, ShardByNamespace)
	case s.Of < 0 || s.Of > MaxShards:
		return fmt.Errorf("%d shards; want 0 to %d", s.Of, MaxShards)
	case s.Of > 0 && len(s.Indexes) == 0:
		return fmt.Errorf("none of %d shards is wanted", s.Of)
	}
	for _, i := range s.Indexes {
		if i < 0 || i >= s.Of {
			return fmt.Errorf("there is no shard %d of %d; they are counted from 0", i, s.Of)
		}
	}
	return nil
}

func (s Shard) field() ShardField {
	if s.By == "" {
		return ShardByUID
	}
	return s.By
}

// hashRange is a range of hashes, including both ends.
type hashRange struct{ first, last uint64 }

// ranges returns the hashes of the shard, as few ranges as possible in ascending order; none for the whole collection, or
// if there is no such shard.
func (s Shard) ranges() (ranges []hashRange) {
	if s.Of == 0 || s.Check() != nil {
		return nil
	}
	for _, i := range slices.Compact(slices.Sorted(slices.Values(s.Indexes))) {
		r := hashRange{s.start(i), s.start(i+1) - 1} // the last one ends at 0-1
		if n := len(ranges); n > 0 && ranges[n-1].last+1 == r.first {
			ranges[n-1].last = r.last
			continue
		}
		ranges = append(ranges, r)
	}
	return ranges
}

// start returns the first hash of a range: i/Of of all hashes, or 0 behind the last one.
func (s Shard) start(i int) uint64 {
	if i == s.Of {
		return 0
	}
	start, _ := bits.Div64(uint64(i), 0, uint64(s.Of))
	return start
}

// shardFilter recognizes the objects of a shard. A nil filter takes all objects for its own.
type shardFilter struct {
	byNamespace bool
	ranges      []hashRange
}

func newShardFilter(s Shard) *shardFilter {
	if s.Of == 0 {
		return nil
	}
	return &shardFilter{byNamespace: s.field() == ShardByNamespace, ranges: s.ranges()}
}

// excludes reports whether an object with this namespace and uid is in another shard.
func (f *shardFilter) excludes(namespace, uid string) bool {
	if f == nil {
		return false
	}
	field := uid
	if f.byNamespace {
		field = namespace
	}
	hash := fnv1a(field)
	for _, r := range f.ranges {
		if r.first <= hash && hash <= r.last {
			return false
		}
	}
	return true
}

// excludesEncoded reports whether an object without envelope is in another shard. One whose name cannot be read is not.
func (r *objectReader[T]) excludesEncoded(data []byte) bool {
	if r.shard == nil {
		return false
	}
	m, ok := r.decoder.Peek(data)
	if !ok {
		m = r.identify(data)
	}
	return len(m.Name) > 0 && r.shard.excludes(wire.View(m.Namespace), wire.View(m.UID))
}

// fnv1a is the 64-bit FNV-1a hash, as in hash/fnv, without an allocation.
func fnv1a(text string) uint64 {
	hash := uint64(14695981039346656037)
	for i := range len(text) {
		hash = (hash ^ uint64(text[i])) * 1099511628211
	}
	return hash
}
