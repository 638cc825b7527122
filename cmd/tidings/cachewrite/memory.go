package cachewrite

import (
	"go/types"
	"maps"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// cell is a place in memory: what a pointer, slice or map refers to, or a field of it. Paths are numbers of fields, and
// elements, which all are one cell, as "*".
type cell struct {
	root ssa.Value
	path string
}

const elements = ".*"

// memory says what the values in memory refer to, as far as this function has stored them; the rest is as its root says.
type memory map[cell]refs

// place returns the cell that an address is of.
func place(address ssa.Value) cell {
	switch v := address.(type) {
	case *ssa.FieldAddr:
		c := place(v.X)
		return cell{c.root, c.path + "." + strconv.Itoa(v.Field)}
	case *ssa.IndexAddr:
		c := place(v.X)
		return cell{c.root, c.path + elements}
	case *ssa.Slice:
		if _, ok := v.X.Type().Underlying().(*types.Pointer); ok { // of an array
			return place(v.X)
		}
	case *ssa.MakeInterface:
		return place(v.X)
	case *ssa.ChangeInterface:
		return place(v.X)
	case *ssa.ChangeType:
		return place(v.X)
	}
	return cell{address, ""}
}

// covers reports whether a cell at path p is, or contains, the one at path q.
func covers(p, q string) bool { return p == q || strings.HasPrefix(q, p+".") || p == "" }

// set stores a value. A cell of elements keeps what it had.
func (m memory) set(c cell, value refs) {
	if strings.HasSuffix(c.path, elements) {
		m[c] = join(m[c], value)
		return
	}
	for other := range m {
		if other.root == c.root && covers(c.path, other.path) {
			delete(m, other)
		}
	}
	m[c] = value
}

// get returns what the value in a cell refers to; whole is set if stores say everything about it.
func (m memory) get(c cell) (value refs, whole bool) {
	longest := -1
	for other, stored := range m {
		if other.root != c.root {
			continue
		}
		if covers(c.path, other.path) && c.path != other.path { // a part of it
			value = join(value, stored)
		} else if covers(other.path, c.path) {
			longest = max(longest, len(other.path))
		}
	}
	if longest < 0 {
		return value, false
	}
	covering := cell{c.root, c.path[:longest]}
	return join(value, m[covering]), !strings.HasSuffix(covering.path, elements)
}

// under returns what the values in a cell and around it refer to.
func (m memory) under(c cell) (value refs) {
	for other, stored := range m {
		if other.root == c.root && (covers(c.path, other.path) || covers(other.path, c.path)) {
			value = join(value, stored)
		}
	}
	return value
}

// forget removes everything below a root.
func (m memory) forget(root ssa.Value) {
	for c := range m {
		if c.root == root {
			delete(m, c)
		}
	}
}

// merge adds what holds at the end of another block, and reports whether anything is new. A cell that only one of the two
// has is as its root says in the other.
func (m memory) merge(other memory, rooted func(cell) refs) (changed bool) {
	for c, value := range other {
		have, ok := m[c]
		if !ok {
			have, _ = m.get(c)
			have = join(have, rooted(c))
		}
		if joined := join(have, value); !ok || !sameRefs(joined, have) {
			m[c], changed = joined, true
		}
	}
	for c, have := range m {
		if _, ok := other[c]; !ok {
			value, whole := other.get(c)
			if !whole {
				value = join(value, rooted(c))
			}
			if joined := join(have, value); !sameRefs(joined, have) {
				m[c], changed = joined, true
			}
		}
	}
	return changed
}

func (m memory) clone() memory { return maps.Clone(m) }
