package object

import "fmt"

// DeltaType says what happened to an object.
type DeltaType uint8

// The delta types. The first three come from single events, Replaced from a relist that found an
// object in another state than the known one, and Sync from a resync timer.
const (
	Added DeltaType = iota + 1
	Updated
	Deleted
	Replaced
	Sync
)

var deltaTypeNames = [...]string{Added: "Added", Updated: "Updated", Deleted: "Deleted", Replaced: "Replaced", Sync: "Sync"}

// String returns the type's name, as client-go spells it.
func (t DeltaType) String() string {
	if int(t) < len(deltaTypeNames) && deltaTypeNames[t] != "" {
		return deltaTypeNames[t]
	}
	return fmt.Sprintf("DeltaType(%d)", uint8(t))
}

// Delta is one change to one object. Deltas are values; the objects they point to are shared and read-only.
type Delta[T Object] struct {
	Key Key
	// Object is the state after the change; for Deleted, the last known state.
	Object T
	// Old is the state before the change, for Updated, Replaced, Sync and Deleted; the zero T for
	// Added, and if it is not known. For a handler, it is the state that the handler saw last.
	Old  T
	Type DeltaType
	// Initial is set on an Added that belongs to an initial list.
	Initial bool
	// FinalStateUnknown is set on a Deleted whose event was missed because the watch was down: Object is then
	// the last state that was seen, which may not be the final one.
	FinalStateUnknown bool
}
