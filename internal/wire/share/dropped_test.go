package share

import "testing"

// TestDroppedEntriesAreNotIndexed: dropped entries, whose hash is lost, must not crowd one place of
// a new index, where each takes as long to link or to pass as there are others.
func TestDroppedEntriesAreNotIndexed(t *testing.T) {
	table := NewTable[int](0, 1<<30)
	const n = 1000
	hash := func(i int) uint64 { return uint64(i+1) * mixer }
	for i := range n {
		table.Add(Entry[int]{Hash: hash(i), Value: i, Cost: 1})
	}
	for i := range n {
		table.Drop(table.Find(hash(i)))
	}
	before := len(table.index)
	for i := n; len(table.index) == before; i++ {
		table.Add(Entry[int]{Hash: hash(i), Value: i, Cost: 1})
	}
	linked, live := 0, 0
	for _, slot := range table.index {
		if slot != 0 {
			linked++
		}
	}
	for i := range table.entries.n {
		if table.entries.at(i).Cost > 0 {
			live++
		}
	}
	if linked != live {
		t.Errorf("%d entries are linked, %d are live", linked, live)
	}
}
