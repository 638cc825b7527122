package story

import (
	"slices"
	"strings"

	"github.com/tidings/tidings/cmd/tidings/internal/news"
)

// deletion tells that an object is to be deleted.
func (t *Teller) deletion(l *life, e news.Event, k kind) {
	if l.line != nil && l.goal == "" {
		t.finish(l)
	}
	l.goal, l.told, l.line = "", false, nil
	l.began, l.stopping = e.Time, true
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
	t.begin(l, e.Time)
	word := "deleted"
	if l.ref.kind == "pod" {
		word = "stopping"
	}
	l.line.steps = append(l.line.steps, word)
	if by := k.by(e.By.Name); by != "" && l.ref.kind != "pod" {
		l.line.by = by
	}
	if l.ref.kind == "ns" {
		t.gone[e.Name] = l
	}
	t.holds(l, e)
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

// holds tells which finalizers hold an object that is to be deleted.
func (t *Teller) holds(l *life, e news.Event) {
	if l.line == nil {
		return
	}
	l.line.last = e.Time
	var names []string
	for _, f := range list(e.After, "metadata", "finalizers") {
		name, _ := f.(string)
		if name == "foregroundDeletion" || name == "orphan" || name == "kubernetes" {
			continue
		}
		if by := setter(e.After, name); by != "" {
			name += ", set by " + by
		}
		names = append(names, name)
	}
	l.line.state = ""
	if len(names) > 0 {
		l.line.state = "held by the finalizer " + strings.Join(names, "; ")
	}
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
	if owner := owner(e.Before); owner != "" {
		l.owner = owner
	}
	defer t.forgetSoon(l)
	if parent := t.parent(l, e); parent != nil && (l.into == parent || l.line == nil) {
		t.into(parent, l, e)
		return true
	}
	if l.into != nil { // its line was told before it ended
		l.into, l.line = nil, nil
	}
	if l.line != nil && !l.stopping {
		t.finish(l)
		l.told = false
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
	if len(l.line.steps) == 1 && l.line.steps[0] == "stopping" || slices.Equal(l.line.steps, []string{"deleted"}) {
		l.line.steps[0] += " → gone"
		if after := e.Time.Sub(l.began); after > 0 && l.stopping {
			l.line.steps[0] += " +" + roughly(after)
		}
		l.line.last = e.Time
	} else {
		t.step(l, e.Time, word)
	}
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
		if t.gone[parent.uid] == parent {
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
