package diff

import (
	"cmp"
	"slices"
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
func attribute(changes []Change, was, is []entry) {
	if len(is) == 0 {
		return
	}
	sets := fieldSets{}
	wrote, _ := only(filter(is, func(e entry) bool { return e.wroteSince(was) }))
	for i := range changes {
		change := &changes[i]
		if change.Op == Removed {
			change.By = wrote
			continue
		}
		owners := sets.closest(is, change)
		if touched := filter(owners, func(e entry) bool { return e.touchedSince(was) }); len(touched) > 0 {
			owners = touched
		}
		change.By = latest(owners)
	}
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
