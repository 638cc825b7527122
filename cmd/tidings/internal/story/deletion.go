package story

import (
	"slices"
	"strings"
	"time"

	"github.com/tidings/tidings/cmd/tidings/internal/news"
)

// whyDeleted tells what went wrong in the same change with which an object's deletion began: a queue may have merged
// several. How its containers end is how it is stopped.
func (t *Teller) whyDeleted(l *life, e news.Event, k kind) {
	if k.changed == nil {
		return
	}
	for _, f := range k.changed(l, e.Time, e.Before, e.After) {
		if f.weight == bad && f.topic != "failed" && f.topic != "unready" {
			t.add(l, e, k, []fact{f})
		}
	}
}

// deletion tells that an object is to be deleted.
func (t *Teller) deletion(l *life, e news.Event, k kind) {
	if l.line != nil && l.goal == "" {
		t.finish(l)
	}
	l.goal, l.told, l.line = "", false, nil
	l.began, l.stopping = e.Time, true
	l.held = holders(e.After)
	if parent := t.parent(l, e); parent != nil {
		l.into = parent
		parent.line.last = e.Time
		if parent.line.await == 0 {
			if parent.line.pending == nil {
				parent.line.pending = map[string]bool{}
			}
			parent.line.pending[l.uid] = true
		}
		return
	}
	t.stopping(l, e.Time)
	if by := k.by(e.By.Name); by != "" && l.ref.kind != "pod" {
		l.line.by = by
	}
	if l.ref.kind == "ns" {
		t.gone[e.Name] = l
	}
}

// stopping opens the line of an object that is being deleted.
func (t *Teller) stopping(l *life, at time.Time) {
	t.begin(l, at)
	word := "deleted"
	if l.ref.kind == "pod" {
		word = "stopping"
	}
	l.line.steps, l.line.state = append(l.line.steps, stage{text: word}), l.held
}

// release lets those whose end was to be told in an object's line tell for themselves.
func (t *Teller) release(l *life) {
	for _, child := range t.order {
		if child.into == l {
			t.alone(child)
		}
	}
}

// alone lets an object tell for itself that it is being deleted.
func (t *Teller) alone(l *life) {
	if parent := l.into.line; parent != nil {
		delete(parent.pending, l.uid)
	}
	l.into = nil
	t.stopping(l, l.began)
	for _, tr := range l.troubles { // the order of its lines is that of their times
		l.line.at = later(l.line.at, tr.told)
	}
}

// parent returns the object in whose open line the end of another is told: its owner, or its namespace.
func (t *Teller) parent(l *life, e news.Event) *life {
	if p := t.gone[l.owner]; p != nil && p != l && p.line != nil {
		return p
	}
	if p := t.gone[e.Namespace]; p != nil && p != l && p.line != nil {
		return p
	}
	if p := t.lives[l.owner]; p != nil && p.line != nil && p.line.await > 0 {
		return p
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// holds notes which finalizers hold an object that is to be deleted. They are told if that stalls.
func (t *Teller) holds(l *life, e news.Event) {
	was := l.held
	l.held = holders(e.After)
	if l.line == nil && l.into == nil && l.held != "" && l.held != was { // others than were told
		t.begin(l, e.Time)
	}
	if l.line != nil {
		l.line.state, l.line.last = l.held, e.Time
	}
}

// holders says which finalizers hold an object, and who set them; "" for none.
func holders(o object) string {
	var names []string
	for _, f := range list(o, "metadata", "finalizers") {
		name, _ := f.(string)
		if name == "foregroundDeletion" || name == "orphan" || name == "kubernetes" {
			continue
		}
		if by := setter(o, name); by != "" {
			name += ", set by " + by
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	return cut("held by the finalizer " + strings.Join(names, "; "))
}

// setter returns the manager that owns a finalizer, and is likely to be the one that has to remove it.
func setter(o object, finalizer string) string {
	for _, entry := range list(o, "metadata", "managedFields") {
		if at(entry, "fieldsV1", "f:metadata", "f:finalizers", `v:"`+finalizer+`"`) != nil {
			return text(entry, "manager")
		}
	}
	return ""
}

// died tells that an object is gone.
func (t *Teller) died(e news.Event, k kind, r ref) bool {
	l := t.life(e.UID, r)
	l.ownedBy(e.Before)
	t.repeat(l, true)
	defer t.forgetSoon(l)
	if parent := t.parent(l, e); parent != nil && (l.into == parent || l.line == nil) {
		t.into(parent, l, e)
		return true
	}
	if l.line != nil && !l.stopping {
		t.own(l)
		l.goal, l.told, l.line = "", false, nil // it will not get there
	}
	if !l.stopping {
		l.began = e.Time
	}
	t.begin(l, e.Time)
	word := "gone"
	if !l.stopping {
		word = "deleted"
	}
	if e.FinalStateUnknown {
		word += ", while nobody was watching"
	}
	t.step(l, e.Time, word)
	if !k.owns() {
		t.finish(l)
		return true
	}
	t.gone[l.uid] = l
	return true
}

// owns reports whether objects of the kind may own others, which go with them.
func (k kind) owns() bool {
	return !slices.Contains([]string{"pod", "cm", "secret", "lease", "pvc", "pv", "svc", "ns", "node", "hpa"},
		k.short)
}

// into tells the end of an object in its parent's line.
func (t *Teller) into(parent, l *life, e news.Event) {
	line := parent.line
	line.last = e.Time
	if line.await > 0 {
		line.ended++
		line.endedName = l.ref.name
		if line.ended == line.await {
			t.finish(parent)
		}
	} else {
		delete(line.pending, l.uid)
		i := slices.IndexFunc(line.with, func(c count) bool { return c.kind == l.ref.kind })
		if i < 0 {
			line.with = append(line.with, count{kind: l.ref.kind})
			i = len(line.with) - 1
		}
		line.with[i].n++
		if t.gone[parent.uid] == parent && (kind{short: l.ref.kind}).owns() {
			t.gone[l.uid] = parent // what it owned goes with it
		}
	}
	l.into, l.line = nil, nil
}

// forgetSoon forgets a deleted object once its line is told.
func (t *Teller) forgetSoon(l *life) {
	if l.line == nil {
		t.forget(l)
	}
}
