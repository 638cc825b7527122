package store

import (
	"hash/maphash"
	"math/bits"

	"github.com/tidings/tidings/internal/tree"
	"github.com/tidings/tidings/object"
)

// minLookup is the minimum size of a lookup's table.
const minLookup = tree.PageSize

// lookup finds the slot of a key in a snapshot by a hash, which touches a fraction of the memory
// that descending the key tree does. It only proposes: the caller compares the key of the object
// there.
//
// Its table has open addressing with linear probing and no tombstones. At most three of four entries are used.
type lookup struct {
	seed maphash.Seed
	// table has a power of two of entries: 0, or a key's hash in the upper half and its slot + 1 in
	// the lower. The search for an entry starts at its hash.
	table tree.Slots[uint64]
	size  uint32
}

func (l *lookup) hash(k object.Key) uint32 {
	return uint32(maphash.String(l.seed, k.Namespace)*31 + maphash.String(l.seed, k.Name))
}

// find calls is for the slots that k may have until it returns true, and returns that slot.
func (l *lookup) find(k object.Key, is func(tree.Slot) bool) (n tree.Slot, found bool) {
	if l.size == 0 {
		return 0, false
	}
	hash := l.hash(k)
	for i := hash & (l.size - 1); ; i = l.next(i) {
		e := l.table.Get(tree.Slot(i))
		if e == 0 {
			return 0, false
		}
		if uint32(e>>32) == hash && is(tree.Slot(e)-1) {
			return tree.Slot(e) - 1, true
		}
	}
}

func (l *lookup) next(i uint32) uint32 { return (i + 1) & (l.size - 1) }

// add adds a new key. keys has all keys, including this one.
func (l *lookup) add(txn uint64, k object.Key, n tree.Slot, keys *tree.Node) {
	if uint64(keys.Len())*4 > uint64(l.size)*3 {
		l.fill(txn, keys)
		return
	}
	l.put(txn, l.hash(k), n)
}

func (l *lookup) put(txn uint64, hash uint32, n tree.Slot) {
	i := hash & (l.size - 1)
	for l.table.Get(tree.Slot(i)) != 0 {
		i = l.next(i)
	}
	l.table.Set(txn, tree.Slot(i), uint64(hash)<<32|uint64(n)+1)
}

// fill rebuilds the table from all keys, with room for as many again.
func (l *lookup) fill(txn uint64, keys *tree.Node) {
	l.size, l.table = 0, tree.Slots[uint64]{}
	if keys == nil {
		return
	}
	l.size = max(minLookup, uint32(1)<<bits.Len(uint(keys.Len())*4/3))
	for i := uint32(0); i < l.size; i += tree.PageSize {
		l.table.Set(txn, tree.Slot(i), 0) // so that all pages exist
	}
	keys.Scan(tree.Span{}, func(it *tree.Item) bool { l.put(txn, l.hash(it.Key), it.Slot); return true })
}

// remove removes the key whose slot is n, and closes the gap in the probe sequence after it.
func (l *lookup) remove(txn uint64, k object.Key, n tree.Slot) { l.removeAt(txn, l.hash(k), n) }

func (l *lookup) removeAt(txn uint64, hash uint32, n tree.Slot) {
	gap := hash & (l.size - 1)
	for tree.Slot(l.table.Get(tree.Slot(gap)))-1 != n {
		gap = l.next(gap)
	}
	for i := l.next(gap); ; i = l.next(i) {
		e := l.table.Get(tree.Slot(i))
		if e == 0 {
			break
		}
		// An entry may move to the gap if its search starts at or before the gap: not between the gap and its place.
		if start := uint32(e >> 32); (i-start)&(l.size-1) >= (i-gap)&(l.size-1) {
			l.table.Set(txn, tree.Slot(gap), e)
			gap = i
		}
	}
	l.table.Set(txn, tree.Slot(gap), 0)
}
