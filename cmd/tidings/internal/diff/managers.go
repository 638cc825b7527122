package diff

import (
	"slices"
	"time"
)

// Manager is a writer of fields, as recorded in metadata.managedFields.
type Manager struct {
	// Name is the manager's name, such as "kubectl-edit" or "kubelet", or "" if unknown.
	Name string
	// Operation is "Apply" or "Update".
	Operation string
	// Subresource is the subresource written to, such as "status", or "" for the object itself.
	Subresource string
}

// Creator returns the manager that created the object: the only one that has written the object itself, and not only a
// subresource, unless it wrote after the creation. It is the zero Manager if the object does not say.
func Creator(object map[string]any) Manager {
	own := filter(managedFields(object), func(e entry) bool { return e.Subresource == "" })
	metadata, _ := object["metadata"].(map[string]any)
	if len(own) != 1 || own[0].isAfter(text(metadata, "creationTimestamp")) {
		return Manager{}
	}
	return own[0].Manager
}

// isAfter reports whether the manager last wrote after this time. It allows for one second, because
// the server may read its clock twice for one request.
func (e entry) isAfter(created string) bool {
	wrote, err := time.Parse(time.RFC3339, e.time)
	began, err2 := time.Parse(time.RFC3339, created)
	return err == nil && err2 == nil && wrote.After(began.Add(time.Second))
}

// attribute determines who made each change, and returns the manager that wrote if there was only one.
//
// A manager that sets a field to a new value becomes its owner, and all other owners lose it,
// unless they apply the same value. So the author of a change is among the owners after it, and has
// written in between: its entry is new, or has a different time, or has gained fields. Times only
// have seconds, so a second write to the same field within a second leaves no trace; but then the
// field has no other owner. A change to something that has no owner of its own, such as the order
// of a list, or that was removed, is attributed to the only manager that has written. The server
// does not record a write that only removes or moves something, unless it is an apply: such a
// change has no manager.
func attribute(changes []Change, was, is []entry) (writer Manager) {
	wrote := func(e entry) bool { return e.wroteSince(was) }
	writer, _ = commonManager(filter(is, wrote))
	sets := fieldSets{}
	for i := range changes {
		changes[i].By = sets.author(&changes[i], is, wrote, writer)
	}
	return writer
}

// author returns who made the change; writer is the only manager that wrote, if there was only one.
func (s fieldSets) author(c *Change, is []entry, wrote func(entry) bool, writer Manager) Manager {
	if c.Op == Removed {
		return writer
	}
	owners, depth := s.closest(is, c)
	if among := filter(owners, wrote); len(among) > 0 {
		by, _ := commonManager(among)
		return by
	}
	if by, alone := commonManager(owners); alone && depth == len(c.Path) && c.Op != Reordered && !c.Path[depth-1].isPosition() {
		return by
	}
	return writer
}

// entry is one entry of metadata.managedFields.
type entry struct {
	Manager
	apiVersion string
	time       string // RFC 3339 in UTC with a fixed number of digits, so it sorts as a string
	fields     map[string]any
}

// managedFields parses the entries of an object. It skips malformed ones.
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

// ancientManager is the manager under which the server merges the oldest entries when there are too many.
const ancientManager = "ancient-changes"

// wroteSince reports whether the manager itself wrote: only then does the server set its time or give it fields.
func (e entry) wroteSince(was []entry) bool {
	old, ok := e.in(was)
	if !ok {
		return e.Name != ancientManager
	}
	return old.time != e.time || hasNewFields(old.fields, e.fields)
}

// hasNewFields reports whether a field set has new fields. Those of managers that did not write are mostly one.
func hasNewFields(was, is map[string]any) bool {
	if same(was, is) {
		return false
	}
	for name, child := range is {
		old, had := was[name]
		if !had {
			return true
		}
		before, _ := old.(map[string]any)
		after, _ := child.(map[string]any)
		if hasNewFields(before, after) {
			return true
		}
	}
	return false
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

// commonManager returns the manager that all entries have in common.
func commonManager(entries []entry) (Manager, bool) {
	if len(entries) == 0 || slices.ContainsFunc(entries, func(e entry) bool { return e.Manager != entries[0].Manager }) {
		return Manager{}, false
	}
	return entries[0].Manager, true
}
