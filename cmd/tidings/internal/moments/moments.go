// Package moments finds the state of recorded objects at moments of the recording.
package moments

import (
	"fmt"
	"strings"
	"time"
)

// Parse parses a moment of a recording: "start", "end", a time after the start such as +90s, a time
// of day such as 10:02 or 10:02:07.5, which is on the day of the recording or the one after, or a
// whole time in RFC 3339. A moment up to a minute before the recording is its start, since that is what a time of day
// without seconds names; one up to a minute after it is its end.
func Parse(text string, began time.Time, duration time.Duration) (time.Time, error) {
	at, err := parse(text, began, duration)
	if err != nil {
		return at, err
	}
	ended := began.Add(duration)
	if at.Before(began.Add(-time.Minute)) || at.After(ended.Add(time.Minute)) {
		const full = "2006-01-02 15:04:05"
		return at, fmt.Errorf("%q is not in the recording, which goes from %s to %s: start and end are these moments",
			text, began.Local().Format(full), ended.Local().Format(full))
	}
	switch {
	case at.Before(began):
		return began, nil
	case at.After(ended):
		return ended, nil
	}
	return at, nil
}

func parse(text string, began time.Time, duration time.Duration) (time.Time, error) {
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
		at := time.Date(local.Year(), local.Month(), local.Day(),
			clock.Hour(), clock.Minute(), clock.Second(), clock.Nanosecond(), time.Local)
		if at.Before(began.Truncate(time.Minute)) {
			at = at.AddDate(0, 0, 1)
		}
		return at, nil
	}
	return time.Time{}, fmt.Errorf("%q is not a moment; want a time of day such as 10:02 or 10:02:07, "+
		"a time after the start such as +90s, start or end", text)
}
