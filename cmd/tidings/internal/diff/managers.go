package diff

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// Manager is who wrote a field, as metadata.managedFields has it.
type Manager struct {
	// Name is the manager's name, such as "kubectl-edit" or "kubelet"; "" if nobody knows.
	Name string
	// Operation is "Apply" or "Update".
	Operation string
	// Subresource is what was written through, such as "status"; "" for the object itself.
	Subresource string
}

// Creator returns the manager that created the object: the only one there is, or the only one that wrote when
// the object was created. It is the zero Manager if the object does not tell.
func Creator(object map[string]any) Manager {
	entries := managedFields(object)
	if by, ok := only(entries); ok {
		return by
	}
	metadata, _ := object["metadata"].(map[string]any)
	created, _ := metadata["creationTimestamp"].(string)
	by, _ := only(filter(entries, func(e entry) bool { return e.time == created && e.Subresource == "" }))
	return by
}

// attribute finds for each change who made it.
//
// A manager that sets a field to a new value becomes its owner, and all others that owned it lose it, unless they
// apply the same value. So the owner after the change is who made it; of several owners, the one whose entry the
// change touched last. A field that is gone has no owner: it is laid to the only manager that wrote at that time.
// The server does not record a write that only removes fields, unless it is an Apply: such a change has no manager.
func attribute(changes []Change, before, after map[string]any) {
	was, is := managedFields(before), managedFields(after)
	if len(is) == 0 {
		return
	}
	wrote, _ := only(filter(is, func(e entry) bool { return e.wroteSince(was) }))
	for i := range changes {
		change := &changes[i]
		if change.Op == Removed {
			change.By = wrote
			continue
		}
		owners := closest(is, after, change.Path)
		if touched := filter(owners, func(e entry) bool { return e.touchedSince(was) }); len(touched) > 0 {
			owners = touched
		}
		change.By = latest(owners)
	}
}

// closest returns the entries that own the value at path most closely: itself or something below it, or else the
// nearest value above it.
func closest(entries []entry, tree any, path Path) []entry {
	var found []entry
	best := 0
	for _, e := range entries {
		switch depth, ok := owns(e.fields, tree, path); {
		case !ok || depth < best:
		case depth > best:
			found, best = []entry{e}, depth
		default:
			found = append(found, e)
		}
	}
	return found
}

// entry is one entry of metadata.managedFields.
type entry struct {
	Manager
	apiVersion string
	time       string // RFC 3339 in UTC with a fixed number of digits, so it orders as text
	fields     map[string]any
}

// managedFields reads the entries of an object. What is malformed is left out.
func managedFields(object map[string]any) []entry {
	metadata, _ := object["metadata"].(map[string]any)
	list, _ := metadata["managedFields"].([]any)
	entries := make([]entry, 0, len(list))
	for _, element := range list {
		m, _ := element.(map[string]any)
		e := entry{Manager: Manager{Name: text(m, "manager"), Operation: text(m, "operation"), Subresource: text(m, "subresource")},
			apiVersion: text(m, "apiVersion"), time: text(m, "time")}
		e.fields, _ = m["fieldsV1"].(map[string]any)
		if e.Name != "" {
			entries = append(entries, e)
		}
	}
	return entries
}

func text(m map[string]any, name string) string {
	s, _ := m[name].(string)
	return s
}

// in finds the entry's earlier state.
func (e entry) in(was []entry) (entry, bool) {
	i := slices.IndexFunc(was, func(o entry) bool { return o.Manager == e.Manager && o.apiVersion == e.apiVersion })
	if i < 0 {
		return entry{}, false
	}
	return was[i], true
}

// wroteSince reports whether the manager itself wrote: only then the server sets its time.
func (e entry) wroteSince(was []entry) bool {
	old, ok := e.in(was)
	return !ok || old.time != e.time
}

// touchedSince reports whether anything about the entry changed. Times have only seconds, so a second write
// within one second may show only in the fields.
func (e entry) touchedSince(was []entry) bool {
	old, ok := e.in(was)
	return !ok || old.time != e.time || !equalMaps(e.fields, old.fields) || len(e.fields) != len(old.fields)
}

func filter(entries []entry, keep func(entry) bool) []entry {
	var kept []entry
	for _, e := range entries {
		if keep(e) {
			kept = append(kept, e)
		}
	}
	return kept
}

// only returns the manager that all entries have in common.
func only(entries []entry) (Manager, bool) {
	if len(entries) == 0 || slices.ContainsFunc(entries, func(e entry) bool { return e.Manager != entries[0].Manager }) {
		return Manager{}, false
	}
	return entries[0].Manager, true
}

// latest returns the manager that wrote last, if only one did at that time.
func latest(entries []entry) Manager {
	if len(entries) == 0 {
		return Manager{}
	}
	last := slices.MaxFunc(entries, func(a, b entry) int { return cmp.Compare(a.time, b.time) }).time
	by, _ := only(filter(entries, func(e entry) bool { return e.time == last }))
	return by
}

// owns reports whether a field set in the FieldsV1 notation has the value at path, something below it, or as a leaf a
// value above it. Depth is how far down the path that is. A leaf may stand for a value that is owned as one piece, or just
// for a map whose entries others own, so who owns more of the path knows better. tree is what the path leads through.
func owns(fields map[string]any, tree any, path Path) (depth int, ok bool) {
	if fields == nil {
		return 0, false
	}
	for i, step := range path {
		child, below := descend(fields, tree, step)
		if child == nil {
			return i, i > 0 && len(fields) == 0
		}
		fields, tree = child, below
	}
	return len(path), true
}

// descend follows one step in a field set and in the tree beside it. The result is nil if the set does not have it.
func descend(fields map[string]any, tree any, step Step) (child map[string]any, below any) {
	if !step.InList {
		m, _ := tree.(map[string]any)
		child, _ = fields["f:"+step.Field].(map[string]any)
		return child, m[step.Field]
	}
	list, _ := tree.([]any)
	at := step.find(list)
	if at < 0 {
		return nil, nil
	}
	if child, ok := fields["i:"+strconv.Itoa(at)].(map[string]any); ok {
		return child, list[at]
	}
	for name, value := range fields {
		if denotes(name, list[at]) {
			child, _ = value.(map[string]any)
			return child, list[at]
		}
	}
	return nil, nil
}

// find returns the position of the element that the step leads to, -1 if there is none.
func (s Step) find(list []any) int {
	if len(s.Keys) == 0 {
		if s.Index < len(list) {
			return s.Index
		}
		return -1
	}
	return slices.IndexFunc(list, func(element any) bool {
		fields, ok := element.(map[string]any)
		return ok && !slices.ContainsFunc(s.Keys, func(kv KeyValue) bool { return !equal(fields[kv.Key], kv.Value) })
	})
}

// denotes reports whether an entry of a field set stands for this list element: `k:{"name":"web"}` for the element
// with these keys, `v:"web"` for the element that is this value.
func denotes(name string, element any) bool {
	if value, ok := strings.CutPrefix(name, "v:"); ok {
		var v any
		return json.Unmarshal([]byte(value), &v) == nil && sameScalar(v, element)
	}
	text, ok := strings.CutPrefix(name, "k:")
	fields, isMap := element.(map[string]any)
	var keys map[string]any
	if !ok || !isMap || json.Unmarshal([]byte(text), &keys) != nil {
		return false
	}
	for key, value := range keys {
		if !sameScalar(value, fields[key]) {
			return false
		}
	}
	return true
}

// sameScalar compares scalars of which a comes from encoding/json, where every number is a float64.
func sameScalar(a, b any) bool {
	if n, ok := b.(int64); ok {
		b = float64(n)
	}
	return isScalar(a) && isScalar(b) && a == b
}
