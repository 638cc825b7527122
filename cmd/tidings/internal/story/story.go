// Package story tells what happens in a cluster as a colleague would: what was changed and by whom, what came of it,
// and above all what goes wrong.
//
//	change ──► facts, by what is known of its kind ──► a line, or the next step of an open one
//
// An object in the midst of something, such as a pod that starts, has an open line, which grows until it ends, goes
// wrong, or stalls. What only repeats what others say is merged: counters of what children do, Events about fields.
// What goes wrong is told at once, and again when it goes on.
package story

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
)

// Options says how to tell.
type Options struct {
	Colors bool
	// Width returns the width of the terminal, at which lines are broken; 0, and a nil Width, leave them whole.
	Width func() int
	// Namespaces names the namespace of each object.
	Namespaces bool
	// Kinds are those that are followed, as far as that is known.
	Kinds []string
	// Dates puts the day before the first line of each.
	Dates bool
}

// Teller turns changes into lines. It needs whole objects (news.Options.States). Its methods may be called from any
// goroutine.
type Teller struct {
	opts Options

	mu    sync.Mutex
	lives map[string]*life // by uid: objects in the midst of something, or with troubles; at most maxLives
	order []*life          // the same, oldest first
	// gone are the objects with an open line in which the end of others is told: by the uid of those that were deleted,
	// and the name of namespaces that are being deleted.
	gone   map[string]*life
	crowds map[string]*crowd // by the uid of their owners: pods whose lines wait for those of others
	seen   map[string]bool   // the kinds of which something is known
	left   map[string]int    // changes that are not told, by kind
	pad    int               // the width of objects' names
	// ordinary counts the Events that are no Warnings, by reason, since ordinarySince.
	ordinary      map[string]int
	ordinarySince time.Time
	now           time.Time
	// looked is when the last look was taken for what is due.
	looked time.Time
	day    string
	out    bytes.Buffer
}

// New returns a teller that knows nothing yet.
func New(opts Options) *Teller {
	t := &Teller{opts: opts, lives: map[string]*life{}, gone: map[string]*life{}, crowds: map[string]*crowd{},
		seen: map[string]bool{}, left: map[string]int{}, pad: minPad}
	for _, kind := range opts.Kinds {
		t.seen[kind] = true
	}
	return t
}

// Event takes a change. It returns the lines that are complete now, and whether the story has room for the change, in
// these lines or in later ones.
func (t *Teller) Event(e news.Event) (lines []byte, told bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(e.Time)
	told = t.tell(e)
	if !told && !e.Initial {
		t.left[leftName(e)]++
	}
	return t.take(), told
}

// Tick returns the lines that are due because nothing has come for them.
func (t *Teller) Tick(now time.Time) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(now)
	return t.take()
}

// Close returns all open lines, as far as they are.
func (t *Teller) Close() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	for open := t.open(); len(open) > 0; open = t.open() { // what one waited for is open after it
		for _, l := range open {
			t.finish(l)
		}
	}
	t.disperse(func(string, *crowd) bool { return true })
	for _, l := range slices.Clone(t.order) {
		t.repeat(l, true)
	}
	return t.take()
}

// Open returns the open lines, the oldest first.
func (t *Teller) Open() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for _, w := range t.openFolded() {
		lines = append(lines, t.head(w.at, w.ref)+cli.Printable(w.text))
	}
	return lines
}

// LeftOut says in one line what the story has left out; "" if nothing.
func (t *Teller) LeftOut() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	for _, name := range slices.SortedFunc(maps.Keys(t.left), func(a, b string) int {
		return cmp.Or(t.left[b]-t.left[a], strings.Compare(a, b))
	}) {
		parts = append(parts, fmt.Sprint(t.left[name], " of ", name))
	}
	if len(parts) > 6 {
		parts = append(parts[:6], fmt.Sprint(len(parts)-6, " other kinds"))
	}
	return strings.Join(parts, ", ")
}

// take returns what was written since the last call.
func (t *Teller) take() []byte {
	lines := bytes.Clone(t.out.Bytes())
	t.out.Reset()
	return lines
}

// tell takes a change, and reports whether the story has room for it.
func (t *Teller) tell(e news.Event) bool {
	if e.Resource.Kind == "Event" {
		return t.report(e)
	}
	k := kindOf(e.Resource)
	if k.leftOut != nil && k.leftOut(e) {
		return false
	}
	t.seen[e.Resource.Kind] = true
	r := ref{k.short, e.Namespace, e.Name}
	t.widen(r)
	switch {
	case e.Initial:
		t.say(e.Time, r, strings.TrimSpace("there at the start "+news.SummaryText(e, maxValue)), "")
		return true
	case e.Type == news.Added:
		return t.born(e, k, r)
	case e.Type == news.Deleted:
		return t.died(e, k, r)
	case e.Type == news.Replaced:
		before := e
		before.Type, before.UID, before.After = news.Deleted, text(e.Before, "metadata", "uid"), nil
		t.died(before, k, r)
		return t.born(e, k, r)
	default:
		return t.changed(e, k, r)
	}
}

// born tells of a new object.
func (t *Teller) born(e news.Event, k kind, r ref) bool {
	l := t.life(e.UID, r)
	l.began = e.Time
	l.ownedBy(e.After)
	what := "new"
	if k.born != nil {
		if about := k.born(e.After); about != "" {
			what += ": " + about
		}
	}
	if k.grows {
		t.begin(l, e.Time)
		l.line.by = k.by(e.By.Name)
	} else {
		t.say(e.Time, r, what, k.by(e.By.Name))
	}
	if k.changed != nil {
		t.add(l, e, k, k.changed(l, e.Time, nil, e.After))
	}
	t.settle(l)
	return true
}

// changed tells of a change.
func (t *Teller) changed(e news.Event, k kind, r ref) bool {
	l := t.life(e.UID, r)
	l.ownedBy(e.After)
	defer t.settle(l)
	wasDeleting, isDeleting := deleting(e.Before), deleting(e.After)
	if isDeleting && !wasDeleting {
		t.whyDeleted(l, e, k)
		t.deletion(l, e, k)
		return true
	}
	if isDeleting {
		t.holds(l, e)
		if r.kind != "ns" {
			return true // what else happens to it is how it ends
		}
	}
	var facts []fact
	if k.changed != nil {
		facts = k.changed(l, e.Time, e.Before, e.After)
	}
	rest, claimed := k.unclaimed(e)
	facts = append(facts, t.anyChange(l, e, k, rest)...)
	t.add(l, e, k, facts)
	return len(facts) > 0 || claimed
}

// add tells facts about one object.
func (t *Teller) add(l *life, e news.Event, k kind, facts []fact) {
	for _, f := range facts {
		f.text = cut(f.text)
		switch f.weight {
		case said:
			t.own(l)
			by := f.by
			if by == "" {
				by = e.By.Name
			}
			t.say(e.Time, l.ref, f.text, k.by(by))
		case bad:
			t.trouble(l, e.Time, f)
		case step, end:
			t.begin(l, e.Time)
			t.step(l, e.Time, f.text)
			if f.weight == end {
				t.finish(l)
				l.ended()
			}
		case state:
			t.begin(l, e.Time)
			if l.line.state != f.text {
				l.line.state, l.line.last = f.text, e.Time
			}
		case shrink:
			t.shrink(l, e, k, f)
		case done:
			l.line = nil
			l.ended()
		}
	}
}

// shrink opens a line that waits until children are gone, or tells it if nothing is known of pods. One that still
// waits grows.
func (t *Teller) shrink(l *life, e news.Event, k kind, f fact) {
	by := k.by(e.By.Name)
	if !t.seen["Pod"] {
		t.say(e.Time, l.ref, f.text, by)
		return
	}
	if l.line != nil && l.line.await > 0 && l.line.by == by {
		from, _, _ := strings.Cut(l.line.steps[0].text, " → ")
		_, to, _ := strings.Cut(f.text, " → ")
		l.line.steps[0].text, l.line.last = from+" → "+to, e.Time
		l.line.await += f.children
	} else {
		t.finish(l)
		l.told, l.began = false, e.Time
		t.begin(l, e.Time)
		l.line.steps, l.line.by, l.line.await = []stage{{text: f.text}}, by, f.children
	}
	for _, child := range t.order { // their watch was ahead
		if child.owner == l.uid && child.stopping && child.line != nil {
			child.into, child.line = l, nil
		}
	}
}

// say writes a line of its own.
func (t *Teller) say(at time.Time, r ref, text, by string) { t.write(at, r, text, by, false) }

// write writes a line, after what waits to be told of the same pod.
func (t *Teller) write(at time.Time, r ref, text, by string, wrong bool) {
	t.leaves(r)
	if t.opts.Dates {
		at = at.Local()
		if day := at.Format(time.DateOnly); day != t.day {
			t.day = day
			t.out.WriteString(day + "\n")
		}
	}
	text = cli.Printable(cut(text))
	if wrong && t.opts.Colors {
		text = "\x1b[33m" + text + "\x1b[0m"
	}
	if by != "" {
		text += t.dim("  by " + cli.Printable(by))
	}
	line := t.head(at, r) + text
	if t.opts.Width != nil {
		line = cli.WrapLine(line, t.opts.Width(), maxRows, indent)
	}
	t.out.WriteString(line + "\n")
}

// maxText is how many bytes of a text are told, and remembered: a message may be as long as its author likes.
const maxText = 1000

func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

const (
	// maxRows is how many lines of a terminal one line may take, and indent where those after the first begin.
	maxRows = 3
	indent  = len("15:04:05 ") + 4
	// minPad and maxPad are the smallest and the largest width that objects' names are filled up to.
	minPad, maxPad = 20, 26
)

func (t *Teller) dim(text string) string {
	if !t.opts.Colors {
		return text
	}
	return "\x1b[2m" + text + "\x1b[0m"
}

// head is the beginning of a line: the time and the object.
func (t *Teller) head(at time.Time, r ref) string {
	return t.dim(at.Format("15:04:05")) + " " + fmt.Sprintf("%-*s ", t.pad, cli.Printable(t.name(r)))
}

func (t *Teller) name(r ref) string {
	name := r.kind + "/" + r.name
	if t.opts.Namespaces && r.namespace != "" {
		return r.namespace + " " + name
	}
	return name
}

func (t *Teller) widen(r ref) {
	if n := len(t.name(r)); n <= maxPad {
		t.pad = max(t.pad, n)
	}
}
