// Package news describes changes of a cluster's objects: as events, and as text and JSON lines.
package news

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/cmd/tidings/internal/diff"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
	"github.com/tidings/tidings/internal/redact"
)

// Type is what happened to an object.
type Type string

// The types. The first three are those of the watch protocol.
const (
	Added    Type = "ADDED"
	Modified Type = "MODIFIED"
	Deleted  Type = "DELETED"
	// Replaced says that the object was deleted and another one of the same name was created, without the deletion
	// being seen.
	Replaced Type = "REPLACED"
)

// Event is one change of one object. It contains no secret values.
type Event struct {
	Time            time.Time
	Type            Type
	Resource        resources.Resource
	Namespace, Name string
	UID             string
	// ResourceVersion is the version after the change; for Deleted, that of the last known state.
	ResourceVersion string
	// OldResourceVersion is the version before the change, or "" if there was none.
	OldResourceVersion string
	Generation         int64
	// Initial is set for an Added that is part of the initial state rather than a change.
	Initial bool
	// FinalStateUnknown is set for a Deleted whose event was missed.
	FinalStateUnknown bool
	// Ending is set for a Modified that says that the object is being deleted, if nothing delays its
	// deletion: there is no grace period and no finalizer.
	Ending bool
	// By is the field manager that created the object, for Added, and the only one that wrote it, for Modified. It is
	// zero if the object does not say.
	By diff.Manager
	// Summary has the most informative fields of an object that was added or deleted, in display order.
	Summary []Detail
	// Changes are the changed fields, for Modified and Replaced.
	Changes []diff.Change
	// Hidden names bookkeeping fields that changed but are not among Changes.
	Hidden []string
	// Object is the whole object after the change, or its last known state, if requested.
	Object map[string]any
	// Before and After are the whole object, if Options.States is set; nil if there was or is none.
	Before, After map[string]any
}

// Options selects what events contain.
type Options struct {
	// Diff selects what is compared, and which bookkeeping is left out of whole objects.
	Diff diff.Options
	// Objects adds the whole object to each event.
	Objects bool
	// States sets Event.Before and Event.After, which no output has.
	States bool
	// Clean, if set, saves work; see there.
	Clean *Clean
}

// Clean remembers the states of objects that have no values of Secrets, by namespace and name, so that of the next
// states only what differs is searched. It is for one resource and one goroutine.
type Clean struct {
	states map[[2]string]*unstructured.Unstructured
}

// NewClean returns a Clean that remembers nothing yet.
func NewClean() *Clean { return &Clean{map[[2]string]*unstructured.Unstructured{}} }

// redacted returns two states without values of Secrets.
func (c *Clean) redacted(
	r resources.Resource, before, after *unstructured.Unstructured,
) (cleanBefore, cleanAfter map[string]any) {
	if c == nil {
		return redact.Pair(r.GroupResource(), before.Object, after.Object)
	}
	key := [2]string{after.GetNamespace(), after.GetName()}
	cleanBefore, cleanAfter, nothing := redact.Next(r.GroupResource(), before.Object, after.Object,
		c.states[key] == before)
	if nothing {
		c.states[key] = after
	} else {
		delete(c.states, key)
	}
	return cleanBefore, cleanAfter
}

// NewAdded returns the event of an object that was added or, if initial is set, that was there from the start.
func NewAdded(now time.Time, r resources.Resource, obj *unstructured.Unstructured, initial bool, opts Options) Event {
	e := newEvent(now, Added, r, obj)
	e.Initial = initial
	e.By = diff.Creator(obj.Object)
	clean := redact.Object(r.GroupResource(), obj.Object)
	e.addSummary(clean, opts)
	e.addStates(nil, clean, opts)
	return e
}

// NewModified returns the event of an object that changed from before to after.
func NewModified(now time.Time, r resources.Resource, before, after *unstructured.Unstructured, opts Options) Event {
	e := newEvent(now, Modified, r, after)
	e.OldResourceVersion = before.GetResourceVersion()
	cleanBefore, cleanAfter := opts.Clean.redacted(r, before, after)
	result := diff.Objects(cleanBefore, cleanAfter, opts.Diff)
	e.Changes, e.Hidden, e.By = result.Changes, result.Hidden, result.By
	grace := after.GetDeletionGracePeriodSeconds()
	e.Ending = after.GetDeletionTimestamp() != nil && grace != nil && *grace == 0 && len(after.GetFinalizers()) == 0
	if before.GetUID() != after.GetUID() {
		e.replaced(after.Object)
	}
	if opts.Objects {
		e.Object = withoutBookkeeping(cleanAfter, opts.Diff)
	}
	e.addStates(cleanBefore, cleanAfter, opts)
	return e
}

// replaced makes it the event of another object of the same name. Nobody changed its fields: somebody created it.
func (e *Event) replaced(after map[string]any) {
	e.Type, e.By = Replaced, diff.Creator(after)
	for i := range e.Changes {
		e.Changes[i].By = diff.Manager{}
	}
}

// NewDeleted returns the event of an object that was deleted. last is its last known state.
func NewDeleted(now time.Time, r resources.Resource, last *unstructured.Unstructured, finalStateUnknown bool, opts Options) Event {
	e := newEvent(now, Deleted, r, last)
	e.FinalStateUnknown = finalStateUnknown
	if opts.Clean != nil {
		delete(opts.Clean.states, [2]string{e.Namespace, e.Name})
	}
	clean := redact.Object(r.GroupResource(), last.Object)
	e.addSummary(clean, opts)
	e.addStates(clean, nil, opts)
	return e
}

func newEvent(now time.Time, t Type, r resources.Resource, obj *unstructured.Unstructured) Event {
	return Event{
		Time: now, Type: t, Resource: r, Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: string(obj.GetUID()),
		ResourceVersion: obj.GetResourceVersion(), Generation: obj.GetGeneration(),
	}
}

// addSummary adds the summary of an object that was added or deleted. The object has been redacted.
func (e *Event) addSummary(object map[string]any, opts Options) {
	e.Summary = summarize(e.Resource, object)
	if opts.Objects {
		e.Object = withoutBookkeeping(object, opts.Diff)
	}
}

// addStates adds the states before and after. They have been redacted.
func (e *Event) addStates(before, after map[string]any, opts Options) {
	if opts.States {
		e.Before, e.After = before, after
	}
}

// withoutBookkeeping returns the object without unwanted bookkeeping.
func withoutBookkeeping(object map[string]any, opts diff.Options) map[string]any {
	if !opts.LastApplied {
		object, _ = diff.WithoutLastApplied(object)
	}
	metadata, ok := object["metadata"].(map[string]any)
	if !ok || opts.ManagedFields {
		return object
	}
	object, metadata = maps.Clone(object), maps.Clone(metadata)
	delete(metadata, "managedFields")
	object["metadata"] = metadata
	return object
}

// manager returns the manager that made the whole event, if there was only one. Otherwise mixed says that several are
// known, so that each change has to name its own.
func (e Event) manager() (by diff.Manager, mixed bool) {
	for _, c := range e.Changes {
		if c.By != e.Changes[0].By {
			return diff.Manager{}, true
		}
	}
	if len(e.Changes) > 0 && e.Changes[0].By != (diff.Manager{}) {
		return e.Changes[0].By, false
	}
	return e.By, false
}
