// Package moments finds the state of recorded objects at moments of the recording.
package moments

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/cmd/tidings/internal/history"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/source/recording"
)

// Parse parses a moment of a recording: "start", "end", a time after the start such as +90s, a time
// of day such as 10:02 or 10:02:07.5, which is on the day of the recording or the one after, or a
// whole time in RFC 3339.
func Parse(text string, began time.Time, duration time.Duration) (time.Time, error) {
	switch {
	case text == "start":
		return began, nil
	case text == "end":
		return began.Add(duration), nil
	case strings.HasPrefix(text, "+"):
		if after, err := time.ParseDuration(text[1:]); err == nil {
			return began.Add(after), nil
		}
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		clock, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		local := began.Local()
		at := time.Date(local.Year(), local.Month(), local.Day(), clock.Hour(), clock.Minute(), clock.Second(), clock.Nanosecond(), time.Local)
		if at.Before(began.Truncate(time.Minute)) {
			at = at.AddDate(0, 0, 1)
		}
		return at, nil
	}
	return time.Time{}, fmt.Errorf("%q is not a moment; want a time of day such as 10:02 or 10:02:07, a time after the start such as +90s, start or end", text)
}

// state is what is known of an object at a moment.
type state struct {
	last    history.Item // the last change between the two moments
	before  *unstructured.Unstructured
	changed bool
}

// Between returns what differs between two moments, sorted by object: one event for each object
// that was added, deleted or changed, with the time of its last change. What changed and changed
// back does not differ.
func Between(rec *recording.Recording, only history.Selection, from, to time.Time, opts news.Options) iter.Seq2[news.Event, error] {
	return func(yield func(news.Event, error) bool) {
		states, err := collect(rec, only, from, to)
		if err != nil {
			yield(news.Event{}, err)
			return
		}
		for _, key := range slices.Sorted(maps.Keys(states)) {
			s := states[key]
			if !s.changed {
				continue
			}
			item := s.last
			item.Before, item.Initial = s.before, false
			if item.After == nil && item.Before == nil { // it came and went
				continue
			}
			if item.After != nil && item.Before != nil && item.After.GetResourceVersion() == item.Before.GetResourceVersion() {
				continue
			}
			e := history.Event(item, opts)
			if e.Type == news.Modified && len(e.Changes) == 0 {
				continue
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func collect(rec *recording.Recording, only history.Selection, from, to time.Time) (map[string]*state, error) {
	states := map[string]*state{}
	for item, err := range history.Of(rec) {
		if err != nil {
			return nil, err
		}
		if item.Time.After(to) {
			break
		}
		if item.Kind != history.Change || !only.Includes(item) {
			continue
		}
		s := states[item.Key()]
		if s == nil {
			s = &state{}
			states[item.Key()] = s
		}
		if item.Initial || !item.Time.After(from) { // what is there when the recording begins was there before
			s.before = item.After
			continue
		}
		s.changed, s.last = true, item
	}
	return states, nil
}
