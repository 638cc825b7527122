package engine

import (
	"testing"
	"time"

	"github.com/tidings/tidings/internal/saved"
	"github.com/tidings/tidings/reflector"
)

// TestProgressOfAFile tells its age, which is none if the clock was set back since it was written.
func TestProgressOfAFile(t *testing.T) {
	for age, want := range map[time.Duration]string{
		90 * time.Minute: "checking, with 7 objects from a file, of 1h30m0s ago", -time.Hour: "checking, with 7 objects from a file, of 0s ago",
	} {
		st := saved.Status{Serving: true, Loaded: 7, AsOf: time.Now().Add(-age)}
		if got := st.Progress(reflector.Status{Phase: reflector.Checking}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestComplete changes one field at a time of a status that allows saving.
func TestComplete(t *testing.T) {
	well := reflector.Status{ResourceVersion: "10", Lists: 3, Invalid: 2}
	for name, tt := range map[string]struct {
		change  func(before, after *reflector.Status)
		version string
		want    error
	}{
		"nothing happened":          {version: "10"},
		"the snapshot is older":     {version: "9"},
		"the snapshot is newer":     {version: "11", want: saved.ErrInFlight},
		"listed meanwhile":          {version: "10", change: func(_, after *reflector.Status) { after.Lists++ }, want: saved.ErrInFlight},
		"left out meanwhile":        {version: "10", change: func(_, after *reflector.Status) { after.Invalid++ }, want: saved.ErrInFlight},
		"left out before":           {version: "10", change: func(before, after *reflector.Status) { before.SkippedTotal, after.SkippedTotal = 1, 1 }, want: errIncomplete},
		"no longer left out":        {version: "10", change: func(before, _ *reflector.Status) { before.SkippedTotal = 1 }},
		"events were lost":          {version: "10", change: func(_, after *reflector.Status) { after.LostEvents = true }, want: errIncomplete},
		"events are lost no longer": {version: "10", change: func(before, _ *reflector.Status) { before.LostEvents = true }},
	} {
		before, after := well, well
		if tt.change != nil {
			tt.change(&before, &after)
		}
		if got := complete(before, after, tt.version); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
