// Package diff tells field by field what changed between two states of an object, and which field manager did it.
//
// It works on the content of unstructured objects: maps, lists and scalars as JSON has them. Elements of a list of
// maps are matched by their merge key (a container by its name, a port by number and protocol), so that an element
// that moved or was inserted does not make all others look changed. Everything here is a pure function; inputs
// are only read.
package diff

import (
	"maps"
	"slices"
)

// Op says what happened to the value at a path.
type Op string

// The operations. A whole subtree that came or went is one change.
const (
	Added   Op = "add"
	Removed Op = "remove"
	Changed Op = "replace"
	// Reordered says that the elements of a keyed list, which are told apart by their merge key, stand in
	// another order. Old and New are the elements' keys in order, without those that came or went.
	Reordered Op = "reorder"
)

// Change is one difference between two states of an object.
type Change struct {
	Path Path
	Op   Op
	// Old and New are the values before and after: parts of the objects compared, not copies. Old is nil for
	// Added and New is nil for Removed.
	Old, New any
	// By is the field manager that made the change, zero when the object does not tell.
	By Manager

	// at is the position of an added element in the new list.
	at int
	// trail holds for each step of Path the value that it leads to: the new one, or the old one where it is gone.
	trail []any
}

// Options says what to compare. The zero value hides what changes with every write.
type Options struct {
	// ManagedFields shows changes of metadata.managedFields.
	ManagedFields bool
	// LastApplied shows changes of the annotation in which kubectl keeps a copy of what was last applied.
	LastApplied bool
}

// Result is the difference between two states of an object.
type Result struct {
	// Changes are the differences, in the order of the fields' names and of the list elements.
	Changes []Change
	// By is the field manager that wrote between the two states, zero if none or several are known to have.
	By Manager
	// Hidden names the metadata fields that differ but are not among the changes: managedFields, generation and kubectl's
	// copy of what was last applied, which change along with something else. resourceVersion is not named, since it always
	// differs.
	Hidden []string
}

// Objects compares two states of one object. metadata.resourceVersion and metadata.generation are only bookkeeping and never
// among the changes; metadata.managedFields and kubectl's copy of what was last applied are if the options ask for them.
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

// Trees compares two trees and leaves nothing out. Applying the changes to before gives after.
func Trees(before, after map[string]any) []Change {
	var d differ
	d.maps(before, after)
	return d.changes
}

// differ collects the changes below path, which it moves along as it descends.
type differ struct {
	path    Path
	trail   []any // the value at each step of path
	changes []Change
	hide    map[string]bool // entries of metadata to leave out
	hidden  []string
}

func (d *differ) report(op Op, before, after any, at int) {
	d.changes = append(d.changes, Change{Path: slices.Clone(d.path), Op: op, Old: before, New: after, at: at, trail: slices.Clone(d.trail)})
}

// step runs visit one step further down, where value is.
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
	for _, name := range fieldNames(before, after) {
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

// present returns a if it is there, else b.
func present(a any, has bool, b any) any {
	if has {
		return a
	}
	return b
}

// fieldNames returns the names in either map, sorted.
func fieldNames(a, b map[string]any) []string {
	names := slices.AppendSeq(make([]string, 0, len(a)), maps.Keys(a))
	for name := range b {
		if _, both := a[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
