package news

import (
	"time"

	"github.com/tidings/tidings/cmd/tidings/internal/resources"
)

// StatusKind is what a Status reports.
type StatusKind string

// The kinds of status. None of them is a change of an object.
const (
	Synced      StatusKind = "synced"      // the initial state is known; changes follow
	Missing     StatusKind = "missing"     // the resource cannot be followed; the others continue without it
	Failing     StatusKind = "error"       // a list or watch failed and is retried, or an object could not be decoded
	Reconnected StatusKind = "reconnected" // the watch was resumed
	Relisted    StatusKind = "relisted"    // the watch could not be resumed, so everything was listed again
	Outage      StatusKind = "outage"      // the server is unreachable or fails all requests
	Stale       StatusKind = "stale"       // the server has sent nothing for a long time
	Hidden      StatusKind = "hidden"      // how many changes have not been shown, and why
	Recovered   StatusKind = "recovered"   // the server responds again, or has sent something again
)

// Status is news about the connection to the server.
type Status struct {
	Time time.Time
	Kind StatusKind
	// Resource is the resource that it is about, or zero for the server as a whole.
	Resource resources.Resource
	// Namespace is set if the resource is followed in several namespaces and the status is about one of them.
	Namespace string
	// Objects is the number of known objects, and ResourceVersion the version to which they are current.
	Objects         int
	ResourceVersion string
	// Message describes it in one line.
	Message string
}
