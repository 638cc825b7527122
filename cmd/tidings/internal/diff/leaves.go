package diff

import (
	"maps"
	"slices"
)

// Leaf is a value of an object that has no values below it, or is empty.
type Leaf struct {
	Path  Path
	Value any
	// Owners are those who own it according to metadata.managedFields, or the nearest value above it.
	Owners []Owner
}

// Owner is a field manager and when it last wrote any of its fields.
type Owner struct {
	Manager
	// Time is in RFC 3339; "" if unknown.
	Time string
}

// Leaves returns the leaves of an object in order of field names and list elements, without metadata.managedFields.
func Leaves(object map[string]any) []Leaf {
	w := leafWalk{entries: managedFields(object), sets: fieldSets{}}
	w.value(object)
	return w.leaves
}

// leafWalk walks an object. trail holds the value at each step of path.
type leafWalk struct {
	path    Path
	trail   []any
	entries []entry
	sets    fieldSets
	leaves  []Leaf
}

func (w *leafWalk) value(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if len(w.path) == 1 && w.path[0].Field == "metadata" && name == "managedFields" {
				continue
			}
			w.step(Step{Field: name}, v[name])
		}
		if len(v) > 0 {
			return
		}
	case []any:
		key, _, _ := commonKey(v, nil)
		for i, element := range v {
			step := Step{InList: true, Index: i}
			if key != nil {
				step = elementStep(element, key)
			}
			w.step(step, element)
		}
		if len(v) > 0 {
			return
		}
	}
	w.leaf(v)
}

func (w *leafWalk) step(s Step, v any) {
	w.path, w.trail = append(w.path, s), append(w.trail, v)
	w.value(v)
	w.path, w.trail = w.path[:len(w.path)-1], w.trail[:len(w.trail)-1]
}

func (w *leafWalk) leaf(v any) {
	leaf := Leaf{Path: slices.Clone(w.path), Value: v}
	owners, _ := w.sets.closest(w.entries, &Change{Path: w.path, trail: w.trail})
	for _, e := range owners {
		if len(w.path) > 0 {
			leaf.Owners = append(leaf.Owners, Owner{e.Manager, e.time})
		}
	}
	w.leaves = append(w.leaves, leaf)
}
