package store

import (
	"slices"

	"github.com/tidings/tidings/internal/tree"
)

// groups arranges items that come sorted by key in the order of an index: by value, then key. Only the distinct values
// are compared with each other, which is several times faster than sorting all entries.
type groups struct {
	ids     map[string]int // from each value to its index in values and counts
	values  []string
	counts  []int
	entries []grouped
	names   *names // copies the values, so that they keep no object alive
}

type grouped struct {
	id   int
	item *tree.Item
}

// add adds an item under a value. Items must come in ascending order.
func (g *groups) add(value string, it *tree.Item) {
	id, ok := g.ids[value]
	if !ok {
		if g.ids == nil {
			g.ids = make(map[string]int)
		}
		id, value = len(g.values), g.names.copy(value)
		g.ids[value] = id
		g.values = append(g.values, value)
		g.counts = append(g.counts, 0)
	}
	g.counts[id]++
	g.entries = append(g.entries, grouped{id, it})
}

// each calls yield for all items under all their values, in index order. It is a counting sort.
func (g *groups) each(yield func(value string, it *tree.Item)) {
	starts := g.starts()
	items := make([]grouped, len(g.entries))
	for _, e := range g.entries {
		items[starts[e.id]] = e
		starts[e.id]++
	}
	for _, e := range items {
		yield(g.values[e.id], e.item)
	}
}

// starts returns, for each value, where its items begin.
func (g *groups) starts() []int {
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
