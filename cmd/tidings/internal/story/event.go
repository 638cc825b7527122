package story

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidings/tidings/cmd/tidings/internal/news"
)

// report takes an Event. One about what a field has said is merged; a Warning is told, and told again when its count
// moves, but not too often.
func (t *Teller) report(e news.Event) bool {
	o := e.After
	if e.Initial || e.Type == news.Deleted || o == nil {
		return e.Type == news.Deleted
	}
	about := at(o, "involvedObject")
	if about == nil {
		about = at(o, "regarding")
	}
	reason, message := text(o, "reason"), cmp.Or(text(o, "message"), text(o, "note"))
	n := max(1, number(o, "count"), number(o, "series", "count"), number(o, "deprecatedCount"))
	r := ref{shortOf(about), text(about, "namespace"), text(about, "name")}
	warning := text(o, "type") == "Warning"
	if slices.Contains(eventsOfFields, reason) && !warning {
		return true
	}
	if e.Type != news.Added && n <= timesBefore(e) && warning {
		return true // only its times moved
	}
	if !warning && e.Type != news.Added {
		return false
	}
	t.widen(r)
	if !warning && !t.hasRoom(e.Time, reason) {
		return false
	}
	if !warning {
		if l := t.lives[text(about, "uid")]; l != nil {
			t.own(l)
		}
		t.say(e.Time, r, reason+": "+message, "")
		return true
	}
	l := t.life(cmp.Or(text(about, "uid"), r.kind+r.namespace+r.name), r)
	t.warn(l, e, reason, message, n)
	return true
}

// maxOrdinary is how many Events of one reason that are no Warnings are told within ordinaryIn: what a controller reports
// of each of its rounds would bury everything else.
const (
	maxOrdinary = 5
	ordinaryIn  = 10 * time.Second
)

// hasRoom reports whether an Event that is no Warning is told.
func (t *Teller) hasRoom(now time.Time, reason string) bool {
	if now.Sub(t.ordinarySince) >= ordinaryIn || now.Before(t.ordinarySince) {
		t.ordinary, t.ordinarySince = map[string]int{}, now
	}
	t.ordinary[reason]++
	return t.ordinary[reason] <= maxOrdinary && len(t.ordinary) <= maxLives
}

// timesBefore returns how often an Event had happened before a change.
func timesBefore(e news.Event) int64 {
	if e.Before == nil {
		return 0
	}
	return max(1, number(e.Before, "count"), number(e.Before, "series", "count"), number(e.Before, "deprecatedCount"))
}

// warn tells a Warning, unless a field or an Event about the same has.
func (t *Teller) warn(l *life, e news.Event, reason, message string, n int64) {
	topic, words := aboutOf(reason, message)
	words = cut(words)
	tr := l.troubles[topic]
	switch {
	case topic == "crash" && (tr != nil || l.troubles["backoff"] != nil || l.troubles["image"] != nil):
		return // each start is told
	case topic == "image" && tr != nil && isPullError(message):
		return // another Event tells more
	case tr == nil:
		t.trouble(l, e.Time, fact{weight: bad, text: words, topic: topic, events: n})
	default:
		if saysLess(topic) && strings.Contains(tr.text, strings.TrimPrefix(words, "Error: ")) {
			words = tr.text
		}
		t.trouble(l, e.Time, fact{weight: bad, text: words, topic: topic, events: n - timesBefore(e)})
	}
}

// saysLess reports whether Events of a topic say at most what fields do.
func saysLess(topic string) bool {
	return topic == "failed" || topic == "start" || strings.HasPrefix(topic, "create")
}

// isPullError reports whether a Warning only names the state of a container that waits for its image.
func isPullError(message string) bool {
	return message == "Error: ErrImagePull" || message == "Error: ImagePullBackOff"
}

// aboutOf returns what a Warning is about, and the words for it.
func aboutOf(reason, message string) (topic, words string) {
	topic = cmp.Or(topics[reason], reason)
	switch topic {
	case "image":
		_, why, ok := strings.Cut(message, "Failed to pull image ")
		switch {
		case ok:
			image, _, _ := strings.Cut(why, ": ")
			return topic, "cannot pull " + strings.Trim(image, `"`) + ": " + cause(message)
		case !isPullError(message):
			return "start", message
		}
		return topic, message
	case "crash":
		words, _, _ = strings.Cut(message, " in pod ")
		return topic, words
	case "create":
		return refusal(message), strings.TrimPrefix(message, "Error creating: ")
	case "probe", "failed":
		return topic, message
	case "schedule":
		return topic, "cannot be scheduled: " + message
	}
	return topic, reason + ": " + message
}

// shortOf returns the short name of the kind that an Event is about.
func shortOf(about any) string {
	name, version := text(about, "kind"), text(about, "apiVersion")
	if group, _, ok := strings.Cut(version, "/"); ok {
		name += "." + group
	}
	if k, known := kinds[name]; known {
		return k.short
	}
	return strings.ToLower(fmt.Sprint(text(about, "kind")))
}
