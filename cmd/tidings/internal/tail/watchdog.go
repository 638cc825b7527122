package tail

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/cmd/tidings/internal/redact"
	"github.com/tidings/tidings/reflector"
)

// partSeen is how often a list and watch had begun anew when it was last looked at.
type partSeen struct{ relists, watches uint64 }

// firstSight takes the counts from which on every further watch is a reconnect. A part that got its objects by a
// list has its first watch still to come, unless it watches already.
func firstSight(parts []tidings.PartStatus) []partSeen {
	seen := make([]partSeen, len(parts))
	for i, part := range parts {
		r := part.Reflector
		seen[i] = partSeen{r.Relists, r.Watches}
		if !r.WatchList && r.Phase != reflector.Watching {
			seen[i].watches++
		}
	}
	return seen
}

// look asks every informer and the output how they are, and shows what is new about it and how far the others have come.
func (t *tail) look() error {
	if t.screen.ReaderGone() {
		return cli.ErrOutputClosed
	}
	if t.unsynced > 0 {
		t.screen.Progress(t.progress())
	}
	for _, f := range t.follows {
		if !f.synced {
			continue
		}
		if err := f.look(t); err != nil {
			return err
		}
	}
	return nil
}

func (f *follow) look(t *tail) error {
	st := f.informer.Status()
	for _, h := range st.Handlers {
		if h.Panics > 0 {
			return fmt.Errorf("%s: showing a change failed because of a mistake in this program; %d changes are missing", f.resource.Name(), h.Panics)
		}
	}
	for i, part := range st.Parts {
		if err := f.lookAtPart(t, st, part, &f.parts[i]); err != nil {
			return err
		}
	}
	if st.Stale == f.stale {
		return nil
	}
	f.stale = st.Stale
	s := f.status(st, news.Recovered)
	s.Message = "the server is heard from again"
	if st.Stale {
		s.Kind = news.Stale
		s.Message = fmt.Sprintf("nothing has been heard from the server for %s; what is shown may be out of date", st.Age.Round(time.Second))
	}
	return t.status(s)
}

// lookAtPart shows that a list and watch has begun anew.
func (f *follow) lookAtPart(t *tail, st tidings.Status, part tidings.PartStatus, seen *partSeen) error {
	r := part.Reflector
	s := f.status(st, news.Reconnected)
	s.ResourceVersion = r.ResourceVersion
	if len(st.Parts) > 1 {
		s.Namespace = part.Namespace
	}
	switch {
	case r.Relists > seen.relists:
		s.Kind = news.Relisted
		s.Message = fmt.Sprintf("listed again at resource version %s, because the watch could not be resumed; changes that were missed have been shown", r.ResourceVersion)
	case r.Watches > seen.watches && r.Phase == reflector.Watching: // else the server may yet refuse to resume
		s.Message = fmt.Sprintf("watching again from resource version %s", r.ResourceVersion)
	default:
		return nil
	}
	*seen = partSeen{r.Relists, max(seen.watches, r.Watches)}
	return t.status(s)
}

// connected reports whether every list and watch is open.
func (f *follow) connected() bool {
	for _, part := range f.informer.Status().Parts {
		if part.Reflector.Phase != reflector.Watching {
			return false
		}
	}
	return true
}

// showError shows a failure that an informer outlives. One that ends the wait for sync is told at the end.
func (t *tail) showError(failure *reflector.Error) error {
	for _, f := range t.follows {
		if f.resource.GroupVersionResource != failure.Resource || !f.synced && failure.Permanent() {
			continue
		}
		s := f.status(f.informer.Status(), news.Failing)
		s.Message = strings.TrimPrefix(redact.Error(f.resource.GroupResource(), failure), failure.Name+": ")
		if wait := time.Until(failure.RetryAt); wait > 0 {
			s.Message += fmt.Sprintf("; next try in %s", wait.Round(100*time.Millisecond))
		}
		return t.status(s)
	}
	return nil
}

// progress says in one line how far the resources have come that have not synced.
func (t *tail) progress() string {
	var parts []string
	for _, f := range t.follows {
		if !f.synced {
			gathered := 0
			for _, part := range f.informer.Status().Parts {
				gathered += part.Reflector.Gathered
			}
			parts = append(parts, fmt.Sprintf("%s (%s so far)", f.resource.Name(), objects(gathered)))
		}
	}
	return "syncing " + strings.Join(parts, ", ")
}
