package store

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tidings/tidings/internal/tree"
)

// manyPending is the number of entries from which an index does not wait for a reader to put them into its tree.
const manyPending = 1 << 14

// settling is the tree of an index in a snapshot that has pending entries, once somebody has read it.
type settling struct {
	// txn is the transaction of the tree's new nodes. No other has this number.
	txn  uint64
	once sync.Once
	root atomic.Pointer[tree.Node]
}

// tree returns the root of the tree with all entries. It may be called from any goroutine.
func (x *indexTree[T]) tree() *tree.Node {
	if len(x.pending) == 0 {
		return x.root
	}
	x.settling.once.Do(func() {
		x.index.wanted.Store(true)
		x.settling.root.Store(withPending(x.settling.txn, x.root, x.pending, &names{}))
	})
	return x.settling.root.Load()
}

// len returns the number of entries.
func (x *indexTree[T]) len() int {
	return len(x.pending) + x.root.Len()
}

// postpone adds the entries of an object that the index does not have. They stay pending.
func (x *indexTree[T]) postpone(w *Writer[T], txn uint64, it tree.Item, values []string) {
	if len(values) >= manyValues {
		values = slices.Compact(slices.Sorted(slices.Values(values)))
	}
	for i, v := range values {
		if len(values) < manyValues && slices.Contains(values[:i], v) {
			continue
		}
		var near string
		if last := len(x.pending) - 1; last >= 0 {
			near = x.pending[last].Value
		}
		it.Value = w.passing.like(v, near)
		x.pending, x.settling = append(x.pending, it), nil
	}
	if len(x.pending) >= max(manyPending, x.len()/3) {
		x.settle(txn, &w.names)
	}
}

// settle puts the pending entries into the tree.
func (x *indexTree[T]) settle(txn uint64, names *names) {
	if len(x.pending) > 0 && !x.takeSettled() {
		x.root, x.pending, x.settling = withPending(txn, x.root, x.pending, names), nil, nil
	}
}

// takeSettled takes over the tree that a reader of the last snapshot has made, if there is one.
func (x *indexTree[T]) takeSettled() bool {
	if x.settling == nil {
		return false
	}
	root := x.settling.root.Load()
	if root == nil {
		return false
	}
	x.root, x.pending, x.settling = root, nil, nil
	return true
}

// withPending returns the root of the tree under root, which may be nil, with the entries of
// pending, which it does not have.
func withPending(txn uint64, root *tree.Node, pending []tree.Item, names *names) *tree.Node {
	if root != nil && len(pending) < root.Len()/4 {
		for i := range pending {
			root = withItem(txn, root, pending[i], names)
		}
		return root
	}
	if !slices.IsSortedFunc(pending, byKey) {
		pending = slices.SortedFunc(slices.Values(pending), byKey)
	}
	g := groups{names: names}
	for i := range pending {
		g.add(pending[i].Value, &pending[i])
	}
	m := merging{Builder: tree.NewBuilder(txn), old: tree.NewCursor(root)}
	m.old.Seek(&tree.SortKey{})
	g.each(func(value string, it *tree.Item) {
		m.add(tree.Item{SortKey: tree.SortKey{Value: value, Key: it.Key}, Slot: it.Slot})
	})
	return m.root()
}

func byKey(a, b tree.Item) int { return a.Key.Compare(b.Key) }

// merging builds a tree of the items of another and new ones, which come in ascending order.
type merging struct {
	tree.Builder
	old  tree.Cursor
	last string // the value of the last item, so that equal values share their memory
}

func (m *merging) add(it tree.Item) {
	for at := m.old.Item(); at != nil && at.Compare(&it.SortKey) < 0; at = m.old.Item() {
		m.append(*at)
		m.old.Next()
	}
	m.append(it)
}

func (m *merging) append(it tree.Item) {
	if it.Value == m.last {
		it.Value = m.last
	}
	m.last = it.Value
	m.Builder.Add(it)
}

// root adds what is left of the other tree.
func (m *merging) root() *tree.Node {
	for at := m.old.Item(); at != nil; at = m.old.Item() {
		m.append(*at)
		m.old.Next()
	}
	return m.Builder.Root()
}

// settle puts the pending entries of all indexes into their trees, at the end of a list.
func (t *Txn[T]) settle() {
	for i := range t.next.indexes {
		x := &t.next.indexes[i]
		x.settle(t.id, &t.writer.names)
		x.index.wanted.Store(false)
	}
}

// keepPending prepares the indexes that have pending entries for readers.
func (s *Snapshot[T]) keepPending(nextID func() uint64) {
	for i := range s.indexes {
		if x := &s.indexes[i]; len(x.pending) > 0 && x.settling == nil {
			x.settling = &settling{txn: nextID()}
		}
	}
}
