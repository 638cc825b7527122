package tree

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
)

// model is a sorted slice of items with a tree that should have the same ones.
type model struct {
	items []Item
	root  *Node
}

func (m *model) find(k SortKey) (int, bool) {
	return slices.BinarySearchFunc(m.items, k, func(it Item, k SortKey) int { return it.Compare(&k) })
}

func (m *model) insert(txn uint64, it Item) error {
	i, exists := m.find(it.SortKey)
	var p Insertion
	if _, found := p.Seek(m.root, &it.SortKey); found != exists {
		return fmt.Errorf("Seek(%v) found it: %t, want %t", it.SortKey, found, exists)
	}
	if !exists {
		m.items = slices.Insert(slices.Clone(m.items), i, it)
		m.root = p.Insert(txn, it)
	}
	return nil
}

func (m *model) remove(txn uint64, k SortKey) {
	if i, exists := m.find(k); exists {
		m.items = slices.Delete(slices.Clone(m.items), i, i+1)
	}
	m.root = m.root.Without(txn, &k)
}

// check returns an error if the tree differs from the items, in whole or in a span.
func (m *model) check(s Span) error {
	if err := Check(m.root); err != nil {
		return err
	}
	for _, s := range []Span{{}, s} {
		var want, got []Item
		for _, it := range m.items {
			if s.has(&it.SortKey) {
				want = append(want, it)
			}
		}
		m.root.Scan(s, func(it *Item) bool { got = append(got, *it); return true })
		if !slices.Equal(got, want) {
			return fmt.Errorf("span %v has %v, want %v", s, got, want)
		}
		if n := m.root.Count(s); n != len(want) {
			return fmt.Errorf("span %v counts %d items, want %d", s, n, len(want))
		}
	}
	if m.root.Len() != len(m.items) {
		return fmt.Errorf("%d items, want %d", m.root.Len(), len(m.items))
	}
	return nil
}

// checkCursor moves a cursor through the tree by keys, which never go back.
func (m *model) checkCursor(keys []SortKey) error {
	slices.SortFunc(keys, func(a, b SortKey) int { return a.Compare(&b) })
	c := NewCursor(m.root)
	c.Seek(&SortKey{})
	for _, k := range keys {
		c.Advance(&k)
		i, _ := m.find(k)
		switch {
		case i == len(m.items):
			if !c.Done() || c.Item() != nil {
				return fmt.Errorf("a cursor after all items is at %v", c.Item())
			}
		case c.Done() || *c.Item() != m.items[i]:
			return fmt.Errorf("the first item at or after %v is %v, want %v", k, c.Item(), m.items[i])
		}
	}
	return nil
}

func randomKey(r *rand.Rand) SortKey {
	k := object.Key{Namespace: fmt.Sprint("ns", r.IntN(3)), Name: fmt.Sprint(r.IntN(400))}
	return SortKey{Value: fmt.Sprint(r.IntN(3)), Key: k}
}

// TestTree applies random changes to a tree and to a sorted slice, in transactions, and compares
// them; earlier roots must stay as they were.
func TestTree(t *testing.T) {
	testseed.Each(t, 20, func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		m, kept := &model{}, []model{}
		for txn := uint64(1); txn < 60; txn++ {
			growing := r.IntN(3) > 0
			for range r.IntN(120) {
				k := randomKey(r)
				if growing == (r.IntN(5) > 0) {
					if err := m.insert(txn, Item{SortKey: k, Slot: Slot(txn)}); err != nil {
						t.Fatal(err)
					}
				} else {
					m.remove(txn, k)
				}
			}
			kept = append(kept, *m)
		}
		for i := range kept {
			k := randomKey(r)
			spans := []Span{OfValue(k.Value), {value: k.Value, namespace: k.Namespace, fields: 2}}
			if err := kept[i].check(spans[r.IntN(2)]); err != nil {
				t.Fatalf("after transaction %d: %v", i+1, err)
			}
			if err := kept[i].checkCursor([]SortKey{randomKey(r), randomKey(r), k}); err != nil {
				t.Fatalf("after transaction %d: %v", i+1, err)
			}
		}
	})
}

// TestBuilder builds trees of all sizes up to three levels.
func TestBuilder(t *testing.T) {
	for n := 0; n < 2*MaxFill*MaxFill; n += 1 + n/7 {
		b, m := NewBuilder(1), model{}
		for i := range n {
			it := Item{SortKey: SortKey{Key: object.Key{Name: fmt.Sprintf("%06d", i)}}, Slot: Slot(i)}
			b.Add(it)
			m.items = append(m.items, it)
		}
		m.root = b.Root()
		if err := m.check(Span{}); err != nil {
			t.Fatalf("%d items: %v", n, err)
		}
	}
}

// TestCheck breaks a tree on purpose.
func TestCheck(t *testing.T) {
	build := func() *Node {
		b := NewBuilder(1)
		for i := range 4 * MaxFill {
			b.Add(Item{SortKey: SortKey{Key: object.Key{Name: fmt.Sprintf("%06d", i)}}})
		}
		return b.Root()
	}
	if err := Check(build()); err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string]func(*Node){
		"size of the root": func(n *Node) { n.size++ },
		"size of a leaf":   func(n *Node) { n.children[1].node.size-- },
		"order":            func(n *Node) { s := n.children[0].node.items; s[0], s[1] = s[1], s[0] },
		"an empty leaf":    func(n *Node) { n.children[2].node.items = []Item{} },
		"a bound":          func(n *Node) { n.children[1].low = n.children[2].low },
		"depth":            func(n *Node) { n.children[3].node = newBranch(1, []child{n.children[3]}) },
	} {
		root := build()
		if broken(root); Check(root) == nil {
			t.Errorf("%s is broken and not found", name)
		}
	}
}

// TestSlots compares an array in transactions with a map; what was published must not change.
func TestSlots(t *testing.T) {
	r := testseed.Rand(t)
	var now Slots[int]
	var kept []Slots[int]
	var want []map[Slot]int
	model := map[Slot]int{}
	for txn := uint64(1); txn < 40; txn++ {
		for range 30 {
			n, v := Slot(r.IntN(3*PageSize*branchSize)), 1+r.IntN(1000)
			now.Set(txn, n, v)
			model[n] = v
		}
		copied := map[Slot]int{}
		for n, v := range model {
			copied[n] = v
		}
		kept, want = append(kept, now), append(want, copied)
	}
	for i, s := range kept {
		count := 0
		for v := range s.All() {
			if v != 0 {
				count++
			}
		}
		if count != len(want[i]) {
			t.Errorf("transaction %d: %d values, want %d", i+1, count, len(want[i]))
		}
		for n := range Slot(4 * PageSize * branchSize) {
			if got := s.Find(n); got != want[i][n] {
				t.Fatalf("transaction %d: slot %d holds %d, want %d", i+1, n, got, want[i][n])
			}
		}
	}
}
