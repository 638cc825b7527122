package story

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// crowd is pods of one owner whose lines are complete, and wait for those of others: as many as do the same in the same
// moment are told in one line.
//
// A line waits while other pods of its owner have open lines, but not longer than an open line may stall. What goes wrong
// never waits, and is told after what waits of the same pod.
type crowd struct {
	lines       []waiting
	first, last time.Time // when the first and the last of them came
}

// waiting is the line of a pod.
type waiting struct {
	ref, owner ref
	at         time.Time
	steps      []stage
	told       bool // it continues one
}

const (
	// many is how many pods make a crowd, and moment how far apart their beginnings may be.
	many   = 4
	moment = time.Second
)

// joins has the line of a pod wait for others, if there are many.
func (t *Teller) joins(l *life) bool {
	if l.ref.kind != "pod" || l.owner == "" || l.stopping {
		return false
	}
	c := t.crowds[l.owner]
	if c == nil {
		if t.starting(l.owner) < many {
			return false
		}
		c = &crowd{first: t.now}
		t.crowds[l.owner] = c
	}
	t.leaves(l.ref)
	c.last = t.now
	c.lines = append(c.lines, l.waiting(l.line.last))
	return true
}

// waiting is the open line as one that waits.
func (l *life) waiting(now time.Time) waiting {
	steps := slices.Clone(l.line.steps)
	if l.line.state != "" {
		steps = append(steps, stage{text: l.line.state, after: now.Sub(l.began)})
	}
	return waiting{l.ref, l.ownerRef, l.line.at, steps, l.told}
}

// starting returns how many pods of an owner have open lines.
func (t *Teller) starting(owner string) (n int) {
	for _, l := range t.order {
		if l.line != nil && l.owner == owner && l.ref.kind == "pod" && !l.stopping {
			n++
		}
	}
	return n
}

// gather tells crowds that have nobody left to wait for, or have waited long enough.
func (t *Teller) gather() {
	t.disperse(func(owner string, c *crowd) bool {
		return len(c.lines) >= maxLives || t.now.Sub(c.last) >= moment || t.now.Sub(c.first) >= stall ||
			t.now.Before(c.first) || t.starting(owner) == 0
	})
}

// disperse tells the crowds that are due.
func (t *Teller) disperse(due func(owner string, c *crowd) bool) {
	if len(t.crowds) == 0 {
		return
	}
	var lines []waiting
	for owner, c := range t.crowds {
		if due(owner, c) {
			lines = append(lines, c.lines...)
			delete(t.crowds, owner)
		}
	}
	for _, f := range fold(lines) {
		t.write(f.at, f.ref, f.text, "", false)
	}
}

// leaves tells what waits to be told of a pod.
func (t *Teller) leaves(r ref) {
	if r.kind != "pod" {
		return
	}
	for _, c := range t.crowds {
		if i := slices.IndexFunc(c.lines, func(w waiting) bool { return w.ref == r }); i >= 0 {
			w := c.lines[i] // the only one: see joins
			c.lines = slices.Delete(c.lines, i, i+1)
			t.write(w.at, w.ref, textOf([]waiting{w}), "", false)
			return
		}
	}
}

// folded is a line that is told, about a pod, or about an owner of many.
type folded struct {
	at   time.Time
	ref  ref
	text string
}

// fold returns lines in order, with one for as many as do the same in the same moment.
func fold(lines []waiting) (all []folded) {
	slices.SortStableFunc(lines, func(a, b waiting) int {
		return cmp.Or(a.at.Compare(b.at), strings.Compare(a.ref.name, b.ref.name))
	})
	for len(lines) > 0 {
		first := lines[0]
		shape := first.shape()
		var same, others []waiting
		for _, w := range lines {
			if w.owner == first.owner && w.at.Sub(first.at) <= moment && w.shape() == shape {
				same = append(same, w)
			} else {
				others = append(others, w)
			}
		}
		if len(same) < many || first.owner.name == "" {
			all = append(all, folded{first.at, first.ref, textOf(same[:1])})
			lines = lines[1:]
			continue
		}
		all = append(all, folded{first.at, first.owner, fmt.Sprint(len(same), " pods ", textOf(same))})
		lines = others
	}
	return all
}

// shape is what a pod does, whenever and wherever.
func (w waiting) shape() string {
	parts := []string{fmt.Sprint(w.told)}
	for _, s := range w.steps {
		what := s.text
		if strings.HasPrefix(what, "on ") {
			what = "on"
		}
		parts = append(parts, what)
	}
	return strings.Join(parts, "\n")
}

// textOf is what pods of the same shape do.
func textOf(same []waiting) string {
	var parts []string
	for i := range same[0].steps {
		var texts []string
		shortest, longest := same[0].steps[i].after, same[0].steps[i].after
		for _, w := range same {
			texts = append(texts, w.steps[i].text)
			shortest, longest = min(shortest, w.steps[i].after), max(longest, w.steps[i].after)
		}
		slices.Sort(texts)
		text := texts[0]
		if n := len(slices.Compact(texts)); n > 1 {
			text = fmt.Sprint("on ", n, " nodes")
		}
		parts = append(parts, text+between(shortest, longest))
	}
	text := strings.Join(parts, " → ")
	if text == "" {
		text = "new"
	}
	if same[0].told {
		text = "… " + text
	}
	return text
}

// between says after how long something happened to several.
func between(shortest, longest time.Duration) string {
	low, high := roughly(shortest), roughly(longest)
	switch {
	case longest < 100*time.Millisecond:
		return ""
	case low == high:
		return " +" + high
	default:
		return " +" + low + " to " + high
	}
}

// openFolded returns the open lines and those that wait, the oldest first.
func (t *Teller) openFolded() (all []folded) {
	var pods []waiting
	for _, c := range t.crowds {
		pods = append(pods, c.lines...)
	}
	for _, l := range t.open() {
		if l.ref.kind == "pod" && l.owner != "" && !l.stopping && l.line.with == nil {
			pods = append(pods, l.waiting(t.now))
			continue
		}
		all = append(all, folded{l.line.at, l.ref, l.text(t.now)})
	}
	all = append(all, fold(pods)...)
	slices.SortStableFunc(all, func(a, b folded) int { return a.at.Compare(b.at) })
	return all
}
