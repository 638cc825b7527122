package story

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ref names an object.
type ref struct{ kind, namespace, name string }

// fact is something that happened to an object, in words.
type fact struct {
	weight weight
	text   string
	by     string // who did it, if that is not who made the whole change
	topic  string // what a bad fact is about: an Event about the same is merged
	events int64  // how often Events say that it happened; 0 of what a field says
	// children is how many are to go, of a shrink.
	children int
}

// nobody is who did what follows from something else.
const nobody = "-"

type weight uint8

const (
	state  weight = iota // how it is now, shown while the object's line is open, and if it stalls
	step                 // continues the object's line
	end                  // and closes it
	said                 // a line of its own
	bad                  // a line at once, with a mark
	shrink               // opens a line that waits for the end of children
	done                 // what the object was in the midst of is over
)

// life is what is remembered of an object in the midst of something, or with troubles.
type life struct {
	uid      string
	ref      ref
	owner    string    // uid
	ownerRef ref       // "" if nothing is known of it
	began    time.Time // what durations are counted from
	line     *line     // nil while no line is open
	told     bool      // a line of it has been told, which the next one continues
	stopping bool      // it is being deleted
	goal     string    // what it works towards, such as "rolled out"; "" for nothing
	held     string    // by which finalizers, while it is being deleted
	into     *life     // in whose open line its end is told; nil for its own
	troubles map[string]*trouble
	swings   map[string]*swing
}

// line is an open line.
type line struct {
	at, last time.Time // when it began, and its last step
	steps    []stage
	state    string
	by       string
	// await is the number of children whose end the line waits for; what has become of them.
	await, ended int
	endedName    string          // of the last of them
	with         []count         // what was deleted with it, by kind
	pending      map[string]bool // uids of what is being deleted with it
}

// stage is something that an open line says.
type stage struct {
	text  string
	after time.Duration // since the beginning
}

func (s stage) String() string {
	if s.after < 100*time.Millisecond {
		return s.text
	}
	return s.text + " +" + roughly(s.after)
}

type count struct {
	kind string
	n    int
}

// String returns "1 rs, 3 pods": abbreviations have no plural.
func (c count) String() string {
	if slices.Contains([]string{"pod", "job", "secret", "node"}, c.kind) {
		return plural(int64(c.n), c.kind)
	}
	return fmt.Sprint(c.n, " ", c.kind)
}

// maxLives bounds what is remembered. The oldest without an open line is forgotten first; what is not told of it is.
const maxLives = 5000

// life returns what is remembered of an object, or begins to remember it.
func (t *Teller) life(uid string, r ref) *life {
	l := t.lives[uid]
	if l != nil {
		return l
	}
	l = &life{uid: uid, ref: r}
	t.lives[uid] = l
	t.order = append(t.order, l)
	if len(t.order) > maxLives {
		others := t.order[:maxLives]
		t.forget(others[max(0, slices.IndexFunc(others, func(l *life) bool { return l.line == nil }))])
	}
	return l
}

// ownedBy notes the owner that an object names, if it does.
func (l *life) ownedBy(o object) {
	reference := ownerReference(o)
	if reference == nil {
		return
	}
	l.owner = text(reference, "uid")
	l.ownerRef = ref{shortOf(reference), l.ref.namespace, text(reference, "name")}
}

// settle forgets an object that nothing is going on with.
func (t *Teller) settle(l *life) {
	if l.line == nil && l.goal == "" && l.into == nil && !l.stopping && len(l.troubles) == 0 &&
		len(l.swings) == 0 && !l.told {
		t.forget(l)
	}
}

func (t *Teller) forget(l *life) {
	t.finish(l)
	t.repeat(l, true)
	if t.lives[l.uid] == l {
		delete(t.lives, l.uid)
	}
	if i := slices.Index(t.order, l); i >= 0 {
		t.order = slices.Delete(t.order, i, i+1)
	}
}

// ended is after what the object was in the midst of.
func (l *life) ended() { l.told, l.goal = false, "" }

// open returns the objects with open lines, the oldest line first.
func (t *Teller) open() []*life {
	var open []*life
	for _, l := range t.order {
		if l.line != nil {
			open = append(open, l)
		}
	}
	slices.SortStableFunc(open, func(a, b *life) int { return a.line.at.Compare(b.line.at) })
	return open
}

// begin opens a line, unless one is open.
func (t *Teller) begin(l *life, at time.Time) {
	if l.line != nil {
		return
	}
	if l.began.IsZero() {
		l.began = at
	}
	l.line = &line{at: at, last: at}
}

// step adds a step to the open line, with the time since the beginning.
func (t *Teller) step(l *life, at time.Time, text string) {
	if n := len(l.line.steps); n == maxSteps { // the last ones matter
		l.line.steps = append(slices.Clone(l.line.steps[:1]), stage{text: "…"})
	}
	l.line.steps = append(l.line.steps, stage{text, at.Sub(l.began)})
	l.line.state, l.line.last = "", at
}

// maxSteps is how many steps a line has.
const maxSteps = 10

// own tells what is open of an object, before a line of its own.
func (t *Teller) own(l *life) {
	if l.line != nil && l.goal == "" {
		t.finish(l)
	}
}

// finish writes the open line, and closes it.
func (t *Teller) finish(l *life) {
	if l.line == nil {
		return
	}
	if l.goal != "" {
		text := "not yet " + l.goal
		if l.line.state != "" {
			text += ": " + l.line.state
		}
		t.write(t.now, l.ref, text, "", false)
	} else if text := l.text(l.line.last); text != "" && !t.joins(l) {
		t.write(l.line.at, l.ref, text, l.line.by, false)
	}
	t.close(l)
}

// close ends the open line. What was to be told in it tells for itself.
func (t *Teller) close(l *life) {
	parent := l.line.await > 0 || len(l.line.pending) > 0
	l.line, l.told = nil, true
	for uid, other := range t.gone {
		if other == l {
			delete(t.gone, uid)
		}
	}
	if parent {
		t.release(l)
	}
}

// text is an open line as far as it is.
func (l *life) text(now time.Time) string {
	line := l.line
	var parts []string
	for _, s := range line.steps {
		parts = append(parts, s.String())
	}
	switch {
	case line.await == 1 && line.ended == 1:
		parts[0] += ": " + line.endedName + " gone +" + roughly(line.last.Sub(l.began))
	case line.await > 1 && line.ended == line.await:
		parts[0] += fmt.Sprintf(": %d pods gone +%s", line.ended, roughly(line.last.Sub(l.began)))
	case line.await > 1 && line.ended > 0:
		parts[0] += fmt.Sprintf(": %d of %d pods gone", line.ended, line.await)
	}
	if line.with != nil {
		var with []string
		for _, c := range line.with {
			with = append(with, c.String())
		}
		parts[len(parts)-1] += ", with " + strings.Join(with, ", ")
		if after := line.last.Sub(l.began); after >= 100*time.Millisecond {
			parts[len(parts)-1] += " +" + roughly(after)
		}
	}
	if line.state != "" {
		parts = append(parts, line.state+" +"+roughly(now.Sub(l.began)))
	}
	if len(parts) == 0 && l.goal == "" && !l.told {
		parts = []string{"new"}
	}
	text := strings.Join(parts, " → ")
	if l.told && text != "" {
		text = "… " + text
	}
	return text
}

// roughly formats a duration as short as one reads it.
func roughly(d time.Duration) string {
	switch {
	case d < 9950*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0fs", d.Seconds())
	case d < time.Hour:
		return whole(d.Round(time.Second))
	default:
		return whole(d.Round(time.Minute))
	}
}

// whole leaves out seconds that are zero.
func whole(d time.Duration) string {
	if minutes, ok := strings.CutSuffix(d.String(), "m0s"); ok {
		return minutes + "m"
	}
	return d.String()
}

// stall is how long an open line waits for its next step before it is told as far as it is; of a workload that waits
// for its pods, which tell more, longer.
const (
	stall       = 5 * time.Second
	stallOfGoal = 10 * time.Second
	// longest is how long a line may be open that always goes on.
	longest = 30 * time.Second
	// quiet is how long the line of a deleted object waits for what goes with it.
	quiet = time.Second
)

// lookEvery is how often it is looked for what is due.
const lookEvery = 100 * time.Millisecond

// advance tells what is due at a time.
func (t *Teller) advance(now time.Time) {
	if t.now = now; now.Sub(t.looked) < lookEvery && !now.Before(t.looked) {
		return
	}
	t.looked = now
	for _, l := range t.open() {
		wait := stall
		switch {
		case l.goal != "":
			wait = stallOfGoal
		case t.gone[l.uid] == l && len(l.line.pending) == 0:
			wait = quiet
		}
		if l.line != nil && (now.Sub(l.line.last) >= wait || l.goal == "" && now.Sub(l.line.at) >= longest) {
			t.stalls(l, now)
		}
	}
	t.gather()
	for _, l := range t.order {
		if l.into != nil && l.held != "" && now.Sub(l.began) >= stall {
			t.alone(l)
		}
	}
	for _, l := range slices.Clone(t.order) {
		t.repeat(l, false)
	}
}

// stalls tells a line that does not go on.
func (t *Teller) stalls(l *life, now time.Time) {
	if l.goal != "" {
		if l.line.state == "" {
			l.line.last = now
			return
		}
		t.write(now, l.ref, "! no progress for "+roughly(now.Sub(l.line.last))+": "+l.line.state, "", true)
		l.line.state, l.line.last = "", now
		return
	}
	if l.stopping && l.line.state != "" {
		held := l.line.state
		l.line.state = ""
		t.trouble(l, now, fact{weight: bad, text: held, topic: "finalizer"})
		return
	}
	if l.line.state == "" && l.ref.kind == "pod" {
		l.line.state, l.line.last = "still so", now
	}
	done := t.gone[l.uid] == l
	if !done {
		l.line.last = now
	}
	t.finish(l)
	if done {
		t.forget(l)
	}
}
