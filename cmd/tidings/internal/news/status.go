package news

import (
	"time"

	"github.com/tidings/tidings/cmd/tidings/internal/resources"
)

// StatusKind says what a Status tells.
type StatusKind string

// The kinds of status. None of them is a change to an object.
const (
	Synced      StatusKind = "synced"      // the state at the start is known; changes follow
	Missing     StatusKind = "missing"     // the resource cannot be followed, and the others go on without it
	Failing     StatusKind = "error"       // a list or watch failed and is tried again, or an object could not be read
	Reconnected StatusKind = "reconnected" // the watch was opened again where it had ended
	Relisted    StatusKind = "relisted"    // the watch could not be resumed, so everything was listed again
	Outage      StatusKind = "outage"      // the server cannot be reached, or answers nobody
	Stale       StatusKind = "stale"       // nothing has been heard from the server for long
	Recovered   StatusKind = "recovered"   // the server answers again, or is heard from again
)

// Status is news about the connection to the server.
type Status struct {
	Time time.Time
	Kind StatusKind
	// Resource is what it is about, zero if that is the server as a whole.
	Resource resources.Resource
	// Namespace is set where the resource is followed in several namespaces, and the status is of one of them.
	Namespace string
	// Objects and ResourceVersion are how many objects are known and the version they are current to.
	Objects         int
	ResourceVersion string
	// Message says it in words, in one line.
	Message string
}
