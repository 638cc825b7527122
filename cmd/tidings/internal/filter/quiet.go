package filter

import (
	"slices"
	"strings"

	"github.com/tidings/tidings/cmd/tidings/internal/diff"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
)

// tickNames are what an event that only ticks can be, in the order in which they are counted in a line.
var tickNames = []struct{ one, many string }{
	{renewal, "lease renewals"}, {heartbeat, "heartbeats"}, {repeat, "repeated events"}, {noChange, "rewrites without a change"},
	{deletion, "deletions that begin"},
}

const (
	renewal   = "lease renewal"
	heartbeat = "heartbeat"
	repeat    = "repeated event"
	noChange  = "rewrite without a change"
	deletion  = "deletion that begins" // and ends at once, which is shown
)

// leaderAnnotation holds the record of leader elections that use no Lease.
const leaderAnnotation = "control-plane.alpha.kubernetes.io/leader"

// heartbeatFields are fields that are written to say that nothing happened, or along with what did.
var heartbeatFields = []string{"lastHeartbeatTime", "lastProbeTime", "lastUpdateTime", "observedGeneration", "renewTime"}

// repeatFields change when an event happens again.
var repeatFields = []string{"count", "lastTimestamp", "series", "firstTimestamp", "deprecatedCount", "deprecatedLastTimestamp"}

// quiet removes from a change what only ticks. If nothing else is left, it returns what the event is.
func (f *Filter) quiet(e *news.Event) (tick string) {
	if e.Type != news.Modified {
		return ""
	}
	if len(e.Changes) == 0 {
		return noChange
	}
	kept := slices.DeleteFunc(slices.Clone(e.Changes), func(c diff.Change) bool {
		t := tickOf(e, c)
		if t != "" && (tick == "" || tick == heartbeat) {
			tick = t
		}
		return t != ""
	})
	if len(kept) == 0 {
		return tick
	}
	f.hidden.Fields += len(e.Changes) - len(kept)
	e.Changes = kept
	return ""
}

// tickOf returns what a change is, if it only ticks.
func tickOf(e *news.Event, c diff.Change) string {
	if len(c.Path) == 0 || c.Op == diff.Removed {
		return ""
	}
	last := c.Path[len(c.Path)-1].Field
	switch {
	case e.Ending && len(c.Path) == 2 && c.Path[0].Field == "metadata" && strings.HasPrefix(last, "deletion"):
		return deletion
	case e.Resource.Kind == "Lease" && last == "renewTime", last == leaderAnnotation:
		return renewal
	case e.Resource.Kind == "Event" && slices.Contains(repeatFields, c.Path[0].Field):
		return repeat
	case c.Path[0].Field == "status" && slices.Contains(heartbeatFields, last):
		return heartbeat
	}
	return ""
}

// Ticks reports whether a change only ticks: a renewal, a heartbeat, an Event's count.
func Ticks(e news.Event, c diff.Change) bool { return tickOf(&e, c) != "" }

// IsUseless reports whether a write changed nothing but times and bookkeeping.
func IsUseless(e news.Event) bool {
	return e.Type == news.Modified && !slices.ContainsFunc(e.Changes, func(c diff.Change) bool { t := tickOf(&e, c); return t == "" || t == deletion })
}
