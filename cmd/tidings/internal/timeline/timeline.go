// Package timeline tells what happened to one object and, if wanted, to all that it owns, that owns
// it, and their events, in one order.
//
// It reads the same news as tail. What the objects themselves say is told as it is; what follows from owners and times
// alone is marked with "≈".
package timeline

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/diff"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
	"github.com/tidings/tidings/cmd/tidings/internal/story"
)

// Options selects what to tell.
type Options struct {
	// Root is the object, in Namespace; "" is any.
	Root      resources.Target
	Namespace string
	// Tree includes what the object owns and what owns it, at any depth, and their events.
	Tree bool
	// Story tells the news that belong to it; nil shows each by its fields.
	Story *story.Teller
	// Colors, and the Width of the terminal, at which lines are broken; see news.Text.
	Colors bool
	Width  func() int
	// MaxChanges and MaxValue limit what is shown of one change.
	MaxChanges, MaxValue int
}

// Printer formats the news that belong to the story, and drops all other. It needs whole objects
// (news.Options.Objects), and the initial ones, which tell who owns whom.
type Printer struct {
	opts Options

	mu      sync.Mutex
	objects map[string]*node // by uid
	roots   map[string]bool  // uids that the object has had
	gone    []string         // uids of deleted objects that are still known, the oldest first
	waiting waiting
	last    time.Time
}

// node is what is known of one object.
type node struct {
	kind, name string
	owners     []string // uids
	changed    time.Time
	what       string // its last change of the spec
}

// within is how long after a change of the owner a creation or a change is taken to follow from it.
const within = 5 * time.Second

// New returns a printer.
func New(opts Options) *Printer {
	return &Printer{opts: opts, objects: map[string]*node{}, roots: map[string]bool{}}
}

// Event returns the line of an event, or nothing if it does not belong to the story or is part of the initial state;
// and the lines of those that waited for its object.
func (p *Printer) Event(e news.Event) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.event(e)
}

func (p *Printer) event(e news.Event) []byte {
	if e.Resource.Kind == "Event" {
		return p.report(e)
	}
	lines := p.change(e, p.learn(e))
	for _, waited := range p.waiting.take(e.UID) {
		lines = append(lines, p.event(waited)...)
	}
	return lines
}

// change returns the line of a change of an object.
func (p *Printer) change(e news.Event, n *node) []byte {
	if !p.belongs(e.UID) {
		if uid := p.missing(e.UID, maxDepth); uid != "" && !e.Initial {
			p.waiting.add(uid, e)
		}
		if e.Type == news.Deleted {
			delete(p.objects, e.UID)
		}
		return nil
	}
	if e.Initial {
		return nil
	}
	if e.Type == news.Deleted {
		defer p.forget(e.UID)
	}
	if p.opts.Story != nil {
		lines, _ := p.opts.Story.Event(e)
		return lines
	}
	text := p.text(e)
	if text == "" {
		return nil
	}
	line := p.line(e.Time, p.depth(e.UID), e.Resource.Kind, e.Name, text+p.inference(e, n))
	if specChanged(e) {
		n.changed, n.what = e.Time, text
	}
	return line
}

// Met reports whether the object was there at any time.
func (p *Printer) Met() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.roots) > 0
}

// Status returns the lines about faults, and about the beginning; that one resource is synced is no news here.
func (p *Printer) Status(s news.Status) []byte {
	if s.Kind == news.Hidden || s.Kind == news.Synced && s.Resource.Name() != "" {
		return nil
	}
	return news.Text{StatusColors: p.opts.Colors, StatusWidth: p.opts.Width}.Status(s)
}

// learn remembers an object and its owners.
func (p *Printer) learn(e news.Event) *node {
	n := p.objects[e.UID]
	if n == nil {
		n = &node{kind: e.Resource.Kind, name: e.Name}
		p.objects[e.UID] = n
	}
	if e.Object != nil {
		n.owners = n.owners[:0]
		metadata, _ := e.Object["metadata"].(map[string]any)
		references, _ := metadata["ownerReferences"].([]any)
		for _, r := range references {
			fields, _ := r.(map[string]any)
			if uid, ok := fields["uid"].(string); ok {
				n.owners = append(n.owners, uid)
			}
		}
	}
	if e.Resource.GroupVersionResource == p.opts.Root.GroupVersionResource && e.Name == p.opts.Root.Object &&
		(p.opts.Namespace == "" || p.opts.Namespace == e.Namespace) {
		p.roots[e.UID] = true
	}
	return n
}

// maxGone is how many deleted objects of the story stay known: events about them may come later,
// and what they owned may outlive them.
const maxGone = 1000

// forget bounds what is known of deleted objects.
func (p *Printer) forget(uid string) {
	if p.gone = append(p.gone, uid); len(p.gone) > maxGone {
		delete(p.objects, p.gone[0])
		delete(p.roots, p.gone[0])
		p.gone = p.gone[1:]
	}
}

// belongs reports whether an object is part of the story.
func (p *Printer) belongs(uid string) bool {
	if p.roots[uid] {
		return true
	}
	if !p.opts.Tree {
		return false
	}
	if p.isBelow(uid, maxDepth) {
		return true
	}
	for root := range p.roots {
		if p.owns(uid, root, maxDepth) {
			return true
		}
	}
	return false
}

// maxDepth ends the search for owners that own each other.
const maxDepth = 16

// isBelow reports whether a root owns the object, at any depth.
func (p *Printer) isBelow(uid string, depth int) bool {
	n := p.objects[uid]
	if n == nil || depth == 0 {
		return false
	}
	for _, owner := range n.owners {
		if p.roots[owner] || p.isBelow(owner, depth-1) {
			return true
		}
	}
	return false
}

// owns reports whether one object owns another, at any depth.
func (p *Printer) owns(owner, owned string, depth int) bool {
	n := p.objects[owned]
	if n == nil || depth == 0 {
		return false
	}
	for _, o := range n.owners {
		if o == owner || p.owns(owner, o, depth-1) {
			return true
		}
	}
	return false
}

// depth returns how far below the root an object is; 0 for what owns the root.
func (p *Printer) depth(uid string) int {
	for depth := 0; depth < maxDepth; depth++ {
		n := p.objects[uid]
		if p.roots[uid] || n == nil || len(n.owners) == 0 {
			return depth
		}
		uid = n.owners[0]
	}
	return 0
}

// text says what happened; "" if nothing that is worth a line.
func (p *Printer) text(e news.Event) string {
	by := ""
	if e.By.Name != "" {
		by = " by " + cli.Printable(e.By.Name)
	}
	switch e.Type {
	case news.Added:
		return "created" + by + p.summary(e)
	case news.Deleted:
		if e.FinalStateUnknown {
			return "deleted, while nobody was watching"
		}
		return "deleted"
	}
	texts := news.Readable(e.Changes, p.opts.MaxValue)
	if len(texts) == 0 {
		return ""
	}
	if most := p.opts.MaxChanges; most > 0 && len(texts) > most {
		texts = append(texts[:most:most], fmt.Sprintf("+%d more", len(texts)-most))
	}
	if by == "" {
		by = authors(e.Changes)
	}
	text := strings.Join(texts, "; ") + by
	if e.Type == news.Replaced {
		text = "replaced: " + text
	}
	return text
}

// authors names the managers of changes, if several are known.
func authors(changes []diff.Change) string {
	var names []string
	seen := map[string]bool{}
	for _, c := range changes {
		if name := c.By.Name; name != "" && !seen[name] {
			seen[name] = true
			names = append(names, cli.Printable(name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " by " + strings.Join(names, ", ")
}

func (p *Printer) summary(e news.Event) string {
	text := news.SummaryText(e, p.opts.MaxValue)
	if text == "" {
		return ""
	}
	return ": " + text
}

// specChanged reports whether an event is a cause that others may follow from: not only its status changed.
func specChanged(e news.Event) bool {
	if e.Type != news.Modified {
		return true
	}
	for _, c := range e.Changes {
		if len(c.Path) > 0 && c.Path[0].Field == "spec" {
			return true
		}
	}
	return false
}

// inference says what an event seems to follow from: a change of its owner shortly before.
func (p *Printer) inference(e news.Event, n *node) string {
	if e.Type == news.Modified && !specChanged(e) {
		return ""
	}
	for _, uid := range n.owners {
		owner := p.objects[uid]
		if owner == nil || owner.changed.IsZero() || !p.belongs(uid) {
			continue
		}
		switch after := e.Time.Sub(owner.changed); {
		case after > within || after < -within:
		case after < 0: // it was seen before, over another watch
			return fmt.Sprintf("  ≈ together with the change of %s %s", owner.kind, owner.name)
		default:
			return fmt.Sprintf("  ≈ %s after the change of %s %s", roughly(after), owner.kind, owner.name)
		}
	}
	return ""
}

func roughly(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// report formats an Event of an object of the story.
func (p *Printer) report(e news.Event) []byte {
	if e.Initial || e.Type == news.Deleted || !p.opts.Tree && len(p.roots) == 0 {
		return nil
	}
	about, _ := e.Object["involvedObject"].(map[string]any)
	if about == nil {
		about, _ = e.Object["regarding"].(map[string]any)
	}
	uid, _ := about["uid"].(string)
	if !p.belongs(uid) {
		if missing := p.missing(uid, maxDepth); missing != "" {
			p.waiting.add(missing, e)
		}
		return nil
	}
	if p.opts.Story != nil {
		lines, _ := p.opts.Story.Event(e)
		return lines
	}
	field := func(names ...string) string {
		for _, name := range names {
			if text, ok := e.Object[name].(string); ok && text != "" {
				return text
			}
		}
		return ""
	}
	text := field("reason") + ": " + field("message", "note")
	if count := e.Object["count"]; count != nil && count != int64(1) {
		text += fmt.Sprintf(" (%v times)", count)
	}
	kind, name := fmt.Sprint(about["kind"]), fmt.Sprint(about["name"])
	if field("type") == "Warning" {
		text = "warning " + text
		if p.opts.Colors {
			text = "\x1b[33m" + cli.Printable(text) + "\x1b[0m"
			return p.line(e.Time, p.depth(uid), kind, name, text)
		}
	}
	return p.line(e.Time, p.depth(uid), kind, name, cli.Printable(text))
}

// line formats a line, or one with the day before it if that is another than the last line's.
func (p *Printer) line(at time.Time, depth int, kind, name, text string) []byte {
	var b strings.Builder
	at = at.Local()
	if day := at.Format(time.DateOnly); day != p.last.Format(time.DateOnly) {
		fmt.Fprintf(&b, "%s\n", day)
	}
	p.last = at
	clock := at.Format("15:04:05.000") + "  "
	object := strings.Repeat("  ", depth) + kind + " " + cli.Printable(name)
	width := 0
	if p.opts.Width != nil {
		width = p.opts.Width()
	}
	b.WriteString(cli.WrapLine(clock+object+"  "+text, width, maxLines, len(clock)+2*depth+4) + "\n")
	return []byte(b.String())
}

// maxLines is the number of lines of a terminal that one change may take.
const maxLines = 3
