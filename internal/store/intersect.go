package store

import (
	"cmp"
	"iter"
	"slices"

	"github.com/tidings/tidings/internal/tree"
	"github.com/tidings/tidings/object"
)

// Match selects the objects that have the value in the index.
type Match[T object.Object] struct {
	Index *Index[T]
	Value string
}

// Intersect iterates over the objects that satisfy all matches, sorted by key; without matches, over all objects.
//
// The sorted lists of the matches are walked together, each skipping ahead to where the others are, so that the cost
// depends on the shortest list and not on the longest. Matches whose index the snapshot does not have are tested on the
// objects that the others leave.
func (s *Snapshot[T]) Intersect(matches ...Match[T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		var lists []list
		var tests []Match[T]
		for _, m := range matches {
			if root, ok := s.index(m.Index); ok {
				lists = append(lists, newList(root, m.Value))
			} else {
				tests = append(tests, m)
			}
		}
		tested := func(o T) bool {
			failed := func(m Match[T]) bool { return !m.Index.has(o, m.Value) }
			return slices.ContainsFunc(tests, failed) || yield(o)
		}
		at := func(it *tree.Item) bool {
			o, ok := s.scanned(it)
			return !ok || tested(o)
		}
		if len(lists) == 0 {
			s.keys.Scan(tree.Span{}, at)
			return
		}
		leapfrog(lists, at)
	}
}

// list is a cursor over the objects of one value of an index.
type list struct {
	cursor tree.Cursor
	value  string
	size   int
}

func newList(root *tree.Node, value string) list {
	size := root.Count(tree.OfValue(value))
	return list{cursor: tree.NewCursor(root), value: value, size: size}
}

// item returns the current item, nil at the end.
func (l *list) item() *tree.Item {
	it := l.cursor.Item()
	if it == nil || it.Value != l.value {
		return nil
	}
	return it
}

// advance moves forward to the first item at or after k.
func (l *list) advance(k object.Key) *tree.Item {
	l.cursor.Advance(&tree.SortKey{Value: l.value, Key: k})
	return l.item()
}

// leapfrog calls yield for each item whose key is in all lists, until it returns false. There is at least one list.
func leapfrog(lists []list, yield func(*tree.Item) bool) {
	slices.SortFunc(lists, func(a, b list) int { return cmp.Compare(a.size, b.size) })
	for i := range lists {
		lists[i].cursor.Seek(&tree.SortKey{Value: lists[i].value})
	}
	shortest := &lists[0]
	for it := shortest.item(); it != nil; {
		behind, ended := ahead(lists[1:], it.Key)
		switch {
		case ended:
			return
		case behind != it.Key:
			it = shortest.advance(behind)
		case !yield(it):
			return
		default:
			shortest.cursor.Next()
			it = shortest.item()
		}
	}
}

// ahead moves all lists to k or beyond. It returns k if all of them have k, else the key at which
// one of them is, or that one of them has ended.
func ahead(lists []list, k object.Key) (at object.Key, ended bool) {
	for i := range lists {
		it := lists[i].advance(k)
		if it == nil {
			return k, true
		}
		if it.Key != k {
			return it.Key, false
		}
	}
	return k, false
}
