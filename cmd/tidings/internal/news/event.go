// Package news says what happened to the objects of a cluster: as events, and as text and JSON lines of them.
package news

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/cmd/tidings/internal/diff"
	"github.com/tidings/tidings/cmd/tidings/internal/redact"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
)

// Type says what happened to an object.
type Type string

// The types, of which the first three are those of the watch protocol.
const (
	Added    Type = "ADDED"
	Modified Type = "MODIFIED"
	Deleted  Type = "DELETED"
	// Replaced says that the object was deleted and another one of the same name was created, and that the deletion
	// was not seen as such.
	Replaced Type = "REPLACED"
)

// Event is one change to one object. It holds no secret values.
type Event struct {
	Time            time.Time
	Type            Type
	Resource        resources.Resource
	Namespace, Name string
	UID             string
	// ResourceVersion is the version after the change; for Deleted, of the last state that is known.
	ResourceVersion string
	// OldResourceVersion is the version before the change, "" if there was none.
	OldResourceVersion string
	Generation         int64
	// Initial is set on an Added that is the state found at the start, no change.
	Initial bool
	// FinalStateUnknown is set on a Deleted whose event was missed.
	FinalStateUnknown bool
	// By is the field manager that created the object, for Added.
	By diff.Manager
	// Changes are what changed, field by field, for Modified and Replaced.
	Changes []diff.Change
	// Hidden names bookkeeping fields that changed but are not among Changes.
	Hidden []string
}

// NewAdded returns the event of an object that came, or with initial set, that was there already.
func NewAdded(now time.Time, r resources.Resource, obj *unstructured.Unstructured, initial bool) Event {
	e := newEvent(now, Added, r, obj)
	e.Initial = initial
	e.By = diff.Creator(obj.Object)
	return e
}

// NewModified returns the event of an object that changed from before to after.
func NewModified(now time.Time, r resources.Resource, before, after *unstructured.Unstructured, opts diff.Options) Event {
	e := newEvent(now, Modified, r, after)
	if before.GetUID() != after.GetUID() {
		e.Type = Replaced
	}
	e.OldResourceVersion = before.GetResourceVersion()
	cleanBefore, cleanAfter := redact.Pair(r.GroupResource(), before.Object, after.Object)
	result := diff.Objects(cleanBefore, cleanAfter, opts)
	e.Changes, e.Hidden = result.Changes, result.Hidden
	return e
}

// NewDeleted returns the event of an object that is gone. last is its last known state.
func NewDeleted(now time.Time, r resources.Resource, last *unstructured.Unstructured, finalStateUnknown bool) Event {
	e := newEvent(now, Deleted, r, last)
	e.FinalStateUnknown = finalStateUnknown
	return e
}

func newEvent(now time.Time, t Type, r resources.Resource, obj *unstructured.Unstructured) Event {
	return Event{
		Time: now, Type: t, Resource: r, Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: string(obj.GetUID()),
		ResourceVersion: obj.GetResourceVersion(), Generation: obj.GetGeneration(),
	}
}

// managers returns the manager that made the whole event, if it was one alone. Otherwise mixed tells whether several
// are known, so that each change has to name its own.
func (e Event) manager() (by diff.Manager, mixed bool) {
	if len(e.Changes) == 0 {
		return e.By, false
	}
	for _, c := range e.Changes {
		if c.By != e.Changes[0].By {
			return diff.Manager{}, true
		}
	}
	return e.Changes[0].By, false
}

// StatusKind says what a Status tells.
type StatusKind string

// The kinds of status. None of them is a change to an object.
const (
	Synced      StatusKind = "synced"      // the state at the start is known; changes follow
	Failing     StatusKind = "error"       // a list or watch failed and is tried again
	Reconnected StatusKind = "reconnected" // the watch was opened again where it had ended
	Relisted    StatusKind = "relisted"    // the watch could not be resumed, so everything was listed again
	Stale       StatusKind = "stale"       // nothing has been heard from the server for long
	Recovered   StatusKind = "recovered"   // the server is heard from again
)

// Status is news about the connection to the server.
type Status struct {
	Time     time.Time
	Kind     StatusKind
	Resource resources.Resource
	// Namespace is set where the resource is followed in several namespaces, and the status is of one of them.
	Namespace string
	// Objects and ResourceVersion are how many objects are known and the version they are current to.
	Objects         int
	ResourceVersion string
	// Message says it in words, in one line.
	Message string
}
