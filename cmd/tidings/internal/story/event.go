package story

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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
	if e.Type != news.Added && before(e, n) && warning {
		return true // only its times moved
	}
	if !warning && e.Type != news.Added {
		return false
	}
	t.widen(r)
	if !warning {
		t.say(e.Time, r, reason+": "+message, "")
		return true
	}
	l := t.life(cmp.Or(text(about, "uid"), r.kind+r.namespace+r.name), r)
	t.warn(l, e, reason, message, n)
	return true
}

// before reports whether an Event's count is not above what it was.
func before(e news.Event, n int64) bool {
	was := max(1, number(e.Before, "count"), number(e.Before, "series", "count"), number(e.Before, "deprecatedCount"))
	return n <= was
}

// warn tells a Warning, unless a field or an Event about the same has.
func (t *Teller) warn(l *life, e news.Event, reason, message string, n int64) {
	topic := cmp.Or(topics[reason], reason)
	words := reason + ": " + message
	switch topic {
	case "image":
		_, why, ok := strings.Cut(message, "Failed to pull image ")
		if !ok && l.troubles["image"] != nil {
			return // another Event has told more
		}
		if ok {
			image, _, _ := strings.Cut(why, ": ")
			words = "cannot pull " + strings.Trim(image, `"`) + ": " + cause(message)
		} else {
			words = message
		}
	case "crash":
		if l.troubles["crash"] != nil || l.troubles["backoff"] != nil || l.troubles["image"] != nil {
			return
		}
		words = message
		if i := strings.Index(words, " in pod "); i > 0 {
			words = words[:i]
		}
	case "probe", "create", "schedule", "failed":
		words = message
		if topic == "schedule" {
			words = "cannot be scheduled: " + message
		}
	}
	known := l.troubles[topic]
	if known != nil && (topic == "failed" || topic == "create") && strings.Contains(known.text, message) {
		return
	}
	if known == nil || known.text != words {
		t.trouble(l, e.Time, fact{weight: bad, text: words, topic: topic})
		known = l.troubles[topic]
		known.count, known.toldAt = n, 1
		if n > 1 {
			known.toldAt = n
		}
		return
	}
	known.count = max(known.count, n)
	t.repeat(l, false)
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
