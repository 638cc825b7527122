package reflector

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/object"
)

// lead is what checks have shown the server to have, and the sink has not got yet. Its methods may
// be called from any goroutine.
type lead struct {
	// sightings is nil if there are none. The oldest comes first.
	sightings atomic.Pointer[[]sighting]
}

// sighting is a version that a check has shown.
type sighting struct {
	version string
	at      time.Time
}

// maxSightings limits how many sightings are remembered. Of more, the newest is replaced: it takes
// the longest to be reached.
const maxSightings = 16

// note records that the server was at a version.
func (l *lead) note(version string, now time.Time) {
	for {
		before := l.sightings.Load()
		var seen []sighting
		if before != nil {
			seen = slices.Clone((*before)[:min(len(*before), maxSightings-1)])
		}
		seen = append(seen, sighting{version, now})
		if l.sightings.CompareAndSwap(before, &seen) {
			return
		}
	}
}

// reached records that the sink is current to a version.
func (l *lead) reached(version string) {
	for {
		before := l.sightings.Load()
		if before == nil {
			return
		}
		n := 0
		for n < len(*before) && !object.OlderResourceVersion(version, (*before)[n].version) {
			n++
		}
		if n == 0 {
			return
		}
		left := (*before)[n:]
		after := &left
		if len(left) == 0 {
			after = nil
		}
		if l.sightings.CompareAndSwap(before, after) {
			return
		}
	}
}

// clear forgets all sightings.
func (l *lead) clear() { l.sightings.Store(nil) }

// oldest returns the oldest sighting, or the zero value.
func (l *lead) oldest() sighting {
	if seen := l.sightings.Load(); seen != nil {
		return (*seen)[0]
	}
	return sighting{}
}

// newest returns the newest version; "" if there is none.
func (l *lead) newest() (version string) {
	if seen := l.sightings.Load(); seen != nil {
		for _, s := range *seen {
			version = object.MaxResourceVersion(version, s.version)
		}
	}
	return version
}

// noteServerVersion records that the server was just seen to be at a version. It may be called from any goroutine.
func (c *counters) noteServerVersion(version string) {
	if object.OlderResourceVersion(c.version.load(), version) {
		c.lead.note(version, time.Now())
		c.lead.reached(c.version.load()) // it may have been reached in the meantime
	}
}
