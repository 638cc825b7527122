// Package diff computes, field by field, what changed between two states of an object, and which
// field manager changed it.
//
// It compares the content of unstructured objects: maps, lists and scalars as in JSON. Elements of a list of maps are
// matched by their merge key (a container by its name, a port by number and protocol), so that moving or inserting an
// element does not make all others look changed. All functions are pure; inputs are only read.
package diff

import (
	"reflect"
	"slices"
)

// Op is what happened to the value at a path.
type Op string

// The operations. Adding or removing a whole subtree is one change.
const (
	Added   Op = "add"
	Removed Op = "remove"
	Changed Op = "replace"
	// Reordered says that the elements of a keyed list, which are identified by their merge key,
	// are in a different order. Old and New are the keys of the elements in order, without added
	// and removed ones.
	Reordered Op = "reorder"
)

// Change is one difference between two states of an object.
type Change struct {
	Path Path
	Op   Op
	// Old and New are the values before and after. They are parts of the compared objects, not
	// copies. Old is nil for Added and New is nil for Removed.
	Old, New any
	// By is the field manager that made the change, or zero if the object does not say.
	By Manager

	// at is the position of an added element in the new list.
	at int
	// trail holds the value at each step of Path: the new one, or the old one if it was removed.
	trail []any
}

// Options selects what to compare. The zero value hides what changes with every write.
type Options struct {
	// ManagedFields includes changes of metadata.managedFields.
	ManagedFields bool
	// LastApplied includes changes of kubectl's last-applied-configuration annotation.
	LastApplied bool
}

// Result is the difference between two states of an object.
type Result struct {
	// Changes are the differences, in order of field names and of list elements.
	Changes []Change
	// By is the only field manager that wrote between the two states, or zero if there are none or several.
	By Manager
	// Hidden names the metadata fields that differ but are not among the changes: managedFields,
	// generation and kubectl's last-applied-configuration, which change along with something else.
	// It does not include resourceVersion, which always differs.
	Hidden []string
}

// Objects compares two states of one object. The changes never include the bookkeeping in
// metadata.resourceVersion and metadata.generation; they include metadata.managedFields and
// kubectl's last-applied-configuration if the options say so.
func Objects(before, after map[string]any, opts Options) Result {
	d := differ{hide: map[string]bool{"managedFields": !opts.ManagedFields, "resourceVersion": true, "generation": true}}
	was, is := managedFields(before), managedFields(after)
	if !opts.LastApplied {
		before, after = d.hideLastApplied(before, after)
	}
	d.maps(before, after)
	slices.Sort(d.hidden)
	return Result{Changes: d.changes, By: attribute(d.changes, was, is), Hidden: d.hidden}
}

// Trees compares two trees completely. Applying the changes to before yields after.
func Trees(before, after map[string]any) []Change {
	var d differ
	d.maps(before, after)
	return d.changes
}

// differ collects the changes below path, which it updates as it descends.
type differ struct {
	path    Path
	trail   []any // the value at each step of path
	changes []Change
	hide    map[string]bool // fields of metadata to leave out
	hidden  []string
}

func (d *differ) report(op Op, before, after any, at int) {
	d.changes = append(d.changes, Change{Path: slices.Clone(d.path), Op: op, Old: before, New: after, at: at, trail: slices.Clone(d.trail)})
}

// step calls visit one step further down, at value.
func (d *differ) step(s Step, value any, visit func()) {
	d.path, d.trail = append(d.path, s), append(d.trail, value)
	visit()
	d.path, d.trail = d.path[:len(d.path)-1], d.trail[:len(d.trail)-1]
}

func (d *differ) values(before, after any) {
	switch b := before.(type) {
	case map[string]any:
		if a, ok := after.(map[string]any); ok && (a == nil) == (b == nil) {
			d.maps(b, a)
			return
		}
	case []any:
		if a, ok := after.([]any); ok && (a == nil) == (b == nil) {
			d.lists(b, a)
			return
		}
	}
	if !equal(before, after) {
		d.report(Changed, before, after, 0)
	}
}

func (d *differ) maps(before, after map[string]any) {
	inMetadata := len(d.path) == 1 && d.path[0].Field == "metadata"
	for _, name := range changedNames(before, after) {
		b, had := before[name]
		a, has := after[name]
		if inMetadata && d.hide[name] {
			if name != "resourceVersion" && (had != has || !equal(b, a)) {
				d.hidden = append(d.hidden, "metadata."+name)
			}
			continue
		}
		d.step(Step{Field: name}, present(a, has, b), func() {
			switch {
			case !had:
				d.report(Added, nil, a, 0)
			case !has:
				d.report(Removed, b, nil, 0)
			default:
				d.values(b, a)
			}
		})
	}
}

// present returns a if it is present, or else b.
func present(a any, has bool, b any) any {
	if has {
		return a
	}
	return b
}

// changedNames returns the sorted names of the fields that may differ.
func changedNames(before, after map[string]any) (names []string) {
	if same(before, after) {
		return nil
	}
	for name, b := range before {
		if a, both := after[name]; !both || !same(b, a) {
			names = append(names, name)
		}
	}
	for name := range after {
		if _, both := before[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// same reports whether two values are equal at first sight: scalars, and maps and lists that are one. The states of an
// object share what has not changed.
func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() && (a == nil) == (b == nil)
	case []any:
		b, ok := b.([]any)
		return ok && len(a) > 0 && len(a) == len(b) && &a[0] == &b[0]
	case string, bool, int64, float64:
		return a == b
	}
	return false
}

// Value returns the value at the first depth steps of the change's path: the new one, or the old one if it was removed.
func (c Change) Value(depth int) any {
	if depth < 1 || depth > len(c.trail) {
		return nil
	}
	return c.trail[depth-1]
}
