package story

import (
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tidings/tidings/cmd/tidings/internal/diff"
	"github.com/tidings/tidings/cmd/tidings/internal/filter"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
)

const (
	// maxSwings is of how many fields of an object it is remembered how they were set.
	maxSwings = 20
	// maxChanges is how many changed fields of an unknown meaning are told at once, and maxValue how many bytes of a value.
	maxChanges = 3
	maxValue   = 60
)

// unclaimed returns the changes that the table does not account for; claimed says that it does for some.
func (k kind) unclaimed(e news.Event) (rest []diff.Change, claimed bool) {
	for _, c := range e.Changes {
		path := c.Path.String()
		if filter.Ticks(e, c) {
			claimed = claimed || e.Resource.Kind != "Lease"
			continue
		}
		if slices.ContainsFunc(k.claims, func(field string) bool {
			return path == field || below(path, field) ||
				below(field, path)
		}) {
			claimed = true
			continue
		}
		rest = append(rest, c)
	}
	return rest, claimed
}

// below reports whether a path is below another.
func below(path, other string) bool {
	rest, ok := strings.CutPrefix(path, other)
	return ok && rest != "" && (rest[0] == '.' || rest[0] == '[')
}

// anyChange tells changes of which nothing is known: what somebody set, the phase, and the conditions.
func (t *Teller) anyChange(l *life, e news.Event, k kind, changes []diff.Change) (facts []fact) {
	var set []diff.Change
	for _, c := range changes {
		switch field := c.Path[0].Field; {
		case field != "status":
			set = append(set, c)
		case len(c.Path) == 1, len(c.Path) == 2 && c.Path[1].Field == "phase": // the first status is one change
			facts = append(facts, phaseFacts(l, e.Time, e.Before, e.After)...)
		}
	}
	facts = append(facts, conditionFacts(e.Before, e.After, changes)...)
	for _, group := range byAuthor(e, set) {
		if f, told := t.setFact(l, e, group); told {
			facts = append(facts, f)
		}
	}
	return facts
}

// byAuthor groups changes by who made them.
func byAuthor(e news.Event, changes []diff.Change) (groups [][]diff.Change) {
	for _, c := range changes {
		i := slices.IndexFunc(groups, func(g []diff.Change) bool { return author(e, g[0]) == author(e, c) })
		if i < 0 {
			groups = append(groups, nil)
			i = len(groups) - 1
		}
		groups[i] = append(groups[i], c)
	}
	return groups
}

func author(e news.Event, c diff.Change) string {
	if c.By.Name != "" {
		return c.By.Name
	}
	return e.By.Name
}

// setFact tells what one manager set; told is false if that is part of a swing, which is told as such.
func (t *Teller) setFact(l *life, e news.Event, changes []diff.Change) (f fact, told bool) {
	f = fact{weight: said, by: author(e, changes[0])}
	var texts []string
	swings := 0
	for _, c := range changes {
		if t.swings(l, e.Time, c, f.by) {
			swings++
			continue
		}
		texts = append(texts, inWords(c))
	}
	if swings > 0 && len(texts) == 0 {
		return f, false
	}
	if more := len(texts) - maxChanges; more > 0 {
		texts = append(texts[:maxChanges:maxChanges], plural(int64(more), "more field"))
	}
	f.text = strings.Join(texts, "; ")
	return f, true
}

// inWords says what changed.
func inWords(c diff.Change) string {
	if last := c.Path[len(c.Path)-1].Field; last == "image" && c.Op == diff.Changed {
		was, is := fmt.Sprint(c.Old), fmt.Sprint(c.New)
		repository, _, _ := strings.Cut(was, ":")
		if tag, same := strings.CutPrefix(is, repository+":"); same && strings.Contains(was, ":") {
			is = tag
		}
		return "image " + was + " → " + is
	}
	text := strings.Join(news.Readable([]diff.Change{c}, maxValue), "; ")
	return strings.TrimPrefix(strings.TrimPrefix(text, "spec."), "+spec.")
}

// conditionFacts tells the conditions whose status changed, or the reason of one that is not as it should be.
func conditionFacts(before, after object, changes []diff.Change) (facts []fact) {
	if !slices.ContainsFunc(changes, func(c diff.Change) bool {
		return len(c.Path) == 1 && c.Path[0].Field == "status" || len(c.Path) > 1 && c.Path[1].Field == "conditions"
	}) {
		return nil
	}
	for _, c := range list(after, "status", "conditions") {
		kind, status, was := text(c, "type"), text(c, "status"), condition(before, text(c, "type"))
		wrong := status == "False" && slices.Contains(good, kind) ||
			status == "True" && slices.ContainsFunc(ill, func(part string) bool {
				return strings.Contains(kind,
					part)
			})
		changed := text(was, "status") != status
		if !changed && (!wrong || text(was, "reason") == text(c, "reason") &&
			text(was, "message") == text(c, "message")) {
			continue
		}
		words := kind
		if status != "True" {
			words = "not " + kind
			if status != "False" {
				words = kind + " " + strings.ToLower(status)
			}
		}
		if reason := text(c, "reason"); reason != "" && reason != kind {
			words += ": " + reason
		}
		if message := text(c, "message"); message != "" {
			words += ": " + message
		}
		weight := said
		if wrong && was != nil {
			weight = bad
		}
		facts = append(facts, fact{weight: weight, text: words, topic: "condition " + kind})
	}
	return facts
}

// swing is a field that goes back and forth between two values.
type swing struct {
	was, is string
	by      string // who wrote last
	others  string // who wrote before
	flips   int64
	first   time.Time
}

// swings notes that a field was set. It reports whether that is one more flip of a swing, which it tells.
func (t *Teller) swings(l *life, now time.Time, c diff.Change, by string) bool {
	path := strings.TrimPrefix(c.Path.String(), "spec.")
	was, is := brief(c.Old), brief(c.New)
	s := l.swings[path]
	if s == nil || s.is != was || s.was != is || c.Op != diff.Changed {
		if l.swings == nil {
			l.swings = map[string]*swing{}
		}
		if len(l.swings) < maxSwings {
			l.swings[path] = &swing{was: was, is: is, by: by, first: now}
		}
		return false
	}
	s.was, s.is, s.flips = was, is, s.flips+1
	s.by, s.others = by, s.by
	if s.flips < 2 {
		return false
	}
	low, high := min(was, is), max(was, is)
	words := fmt.Sprintf("%s flaps between %s and %s", path, low, high)
	if s.others != by {
		words = fmt.Sprintf("%s and %s fight over %s: %s ↔ %s", min(by, s.others), max(by, s.others), path,
			low, high)
	}
	topic := "swing " + path
	t.trouble(l, now, fact{weight: bad, text: words, topic: topic})
	tr := l.troubles[topic]
	tr.first, tr.seen = s.first, s.flips+1
	if tr.toldAt == 1 {
		tr.toldAt = tr.seen
	}
	return true
}

// brief is a value that can be read and compared: of a long one its beginning, and a sum of the whole.
func brief(v any) string {
	text := fmt.Sprint(v)
	if len(text) <= maxValue {
		return text
	}
	sum := fnv.New64a()
	_, _ = io.WriteString(sum, text)
	return fmt.Sprintf("%s… (%d bytes, sum %x)", strings.ToValidUTF8(text[:maxValue/2], ""), len(text), sum.Sum64())
}
