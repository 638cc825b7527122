package cachewrite

import (
	"go/types"
	"maps"
)

// origin is where memory comes from: a parameter by its number, or what a cache holds, as a negative number.
type origin int

// Reach says how a value leads to an origin's memory.
type Reach struct {
	// Held is the number of pointers that lead there through memory of the function's own, such as one for a new list of
	// cached objects. Writing through a value writes to the origin's memory if it is zero.
	Held int
	// Depth is the number of pointers from the origin to its memory that is reached. It is zero for caches: all that a
	// cached object leads to is shared.
	Depth int
}

// refs says what a value refers to.
type refs map[origin]Reach

// The numbers that are told apart.
const (
	deepest  = 4
	farthest = 4
)

// nearer returns the one of two ways that makes more of the writes through a value writes to the origin.
func nearer(a, b Reach) Reach {
	if b.Held < a.Held || b.Held == a.Held && b.Depth > a.Depth {
		return b
	}
	return a
}

// join returns what either value may refer to.
func join(a, b refs) refs {
	if len(b) == 0 {
		return a
	}
	if len(a) == 0 {
		return b
	}
	joined := maps.Clone(a)
	for o, r := range b {
		if known, ok := joined[o]; ok {
			r = nearer(known, r)
		}
		joined[o] = r
	}
	return joined
}

// loaded returns what the values refer to that are so many pointers further.
func (r refs) loaded(pointers int) refs {
	if len(r) == 0 || pointers == 0 {
		return r
	}
	loaded := refs{}
	for o, reach := range r {
		loaded[o] = o.loaded(reach, pointers)
	}
	return loaded
}

func (o origin) loaded(r Reach, pointers int) Reach {
	through := min(pointers, r.Held)
	r.Held -= through
	if o >= 0 {
		r.Depth = min(r.Depth+pointers-through, deepest)
	}
	return r
}

// held returns what refers to memory of the function's own that holds such values, so many pointers away.
func (r refs) held(pointers int) refs {
	if len(r) == 0 || pointers == 0 {
		return r
	}
	held := refs{}
	for o, reach := range r {
		if reach.Held += pointers; reach.Held <= farthest {
			held[o] = reach
		}
	}
	return held
}

// sameRefs reports whether two values refer to the same.
func sameRefs(a, b refs) bool { return maps.Equal(a, b) }

// hasRefs reports whether values of a type refer to memory that can be written to.
func hasRefs(t types.Type) bool {
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		if obj := t.Obj(); obj.Pkg() != nil && obj.Pkg().Path() == "time" {
			return false // a Location is never written to
		}
		return hasRefs(t.Underlying())
	case *types.Basic, *types.Signature, *types.Chan:
		return false
	case *types.Struct:
		for i := range t.NumFields() {
			if hasRefs(t.Field(i).Type()) {
				return true
			}
		}
		return false
	case *types.Array:
		return hasRefs(t.Elem())
	case *types.Tuple:
		for i := range t.Len() {
			if hasRefs(t.At(i).Type()) {
				return true
			}
		}
		return false
	}
	return true
}
