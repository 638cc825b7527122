package reflector

import "fmt"

// Phase is a state of the machine.
type Phase uint8

// The phases.
const (
	// Starting picks how to get the collection, and forgets a list that was left unfinished.
	Starting Phase = iota
	// WatchListing reads the current objects from the head of a watch.
	WatchListing
	// Listing reads the current objects page by page.
	Listing
	// Watching reads changes.
	Watching
	// BackingOff waits before the next request.
	BackingOff
	// Stopped is the end: the context has ended.
	Stopped
)

var phaseNames = [...]string{
	Starting: "starting", WatchListing: "watch-listing", Listing: "listing", Watching: "watching",
	BackingOff: "backing off", Stopped: "stopped",
}

// String returns the phase in lower case, as it stands in messages.
func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return fmt.Sprintf("Phase(%d)", uint8(p))
}
