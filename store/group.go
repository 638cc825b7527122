package store

import "slices"

// groups brings items that come sorted by key into the order of an index: by value, then key. Only the distinct
// values are compared with each other, which makes it several times faster than sorting all entries.
type groups[T any] struct {
	ids     map[string]int // from each value to its index in values and counts
	values  []string
	counts  []int
	entries []grouped[T]
}

type grouped[T any] struct {
	id    int
	value string // of the item's own object, so that it keeps no other alive
	item  *item[T]
}

// add adds an item under a value. Items come in ascending order.
func (g *groups[T]) add(value string, it *item[T]) {
	id, ok := g.ids[value]
	if !ok {
		if g.ids == nil {
			g.ids = make(map[string]int)
		}
		id = len(g.values)
		g.ids[value] = id
		g.values = append(g.values, value)
		g.counts = append(g.counts, 0)
	}
	g.counts[id]++
	g.entries = append(g.entries, grouped[T]{id, value, it})
}

// each calls yield for all items under all their values, in the order of the index. It is a counting sort.
func (g *groups[T]) each(yield func(value string, it *item[T])) {
	starts := g.starts()
	items := make([]grouped[T], len(g.entries))
	for _, e := range g.entries {
		items[starts[e.id]] = e
		starts[e.id]++
	}
	for _, e := range items {
		yield(e.value, e.item)
	}
}

// starts returns for each value at which place its items begin.
func (g *groups[T]) starts() []int {
	order := make([]int, len(g.values))
	for i, v := range slices.Sorted(slices.Values(g.values)) {
		order[i] = g.ids[v]
	}
	starts := make([]int, len(g.values))
	next := 0
	for _, id := range order {
		starts[id] = next
		next += g.counts[id]
	}
	return starts
}
