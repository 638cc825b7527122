package news

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/diff"
)

// Limits limits what is shown of one event. 0 means no limit.
type Limits struct {
	// Changes is the number of changes to show; the others are counted.
	Changes int
	// Value is the number of bytes of a value to show; the length of a longer value is shown as well.
	Value int
}

// Text formats events and status for people. Its methods return whole lines and may be called from several
// goroutines.
type Text struct {
	Limits Limits
	// Colors applies to events and StatusColors to status, which may be written to different streams.
	Colors, StatusColors bool
	// Width returns the width of the terminal, at which lines are wrapped, and cut with a mark if they
	// need too many lines; 0, and a nil Width, leave them whole.
	Width func() int
	// StatusWidth is the same for status.
	StatusWidth func() int
}

// The colors, by their terminal codes.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	dim    = "2"
)

const clock = "15:04:05.000"

// isWarning reports whether the event is about an event of type Warning.
func isWarning(e Event) bool {
	return e.Resource.Kind == "Event" && len(e.Summary) > 0 && e.Summary[0].Value == "Warning"
}

var typeColors = map[Type]string{Added: green, Modified: yellow, Replaced: yellow, Deleted: red}

// Event returns one line that says what happened to which object and by whom, followed by one line for each changed
// field.
func (t Text) Event(e Event) []byte {
	var b strings.Builder
	by, mixed := e.manager()
	fmt.Fprintf(&b, "%s %s %s %s%s\n", t.paint(dim, e.Time.Format(clock)), t.paint(typeColors[e.Type], fmt.Sprintf("%-8s", e.Type)),
		cli.Printable(e.Resource.Name()), cli.Printable(objectName(e)), t.paint(dim, remarks(e, by)))
	t.summary(&b, e.Summary, isWarning(e))
	groups := readable(e.Changes)
	for i, g := range groups {
		if t.Limits.Changes > 0 && i == t.Limits.Changes {
			fmt.Fprintf(&b, "    %s\n", t.paint(dim, fmt.Sprintf("+%s more", thousands(len(groups)-i))))
			break
		}
		if g.text == "" {
			t.change(&b, g.change, mixed)
			continue
		}
		fmt.Fprintf(&b, "    %s %s%s\n", t.sign(diff.Changed), g.text, t.author(g.change, mixed))
	}
	if len(e.Changes) == 0 && len(e.Hidden) > 0 {
		fmt.Fprintf(&b, "    %s\n", t.paint(dim, "no change except in "+strings.Join(e.Hidden, ", ")))
	}
	return []byte(cli.Wrap(b.String(), columns(t.Width), wrapRows))
}

// wrapRows is the number of lines of a terminal that one line of an event may take.
const wrapRows = 3

func columns(width func() int) int {
	if width == nil {
		return 0
	}
	return width()
}

// summary writes the details of an object that was added or deleted in one line.
func (t Text) summary(b *strings.Builder, details []Detail, warning bool) {
	if len(details) == 0 {
		return
	}
	texts := make([]string, len(details))
	for i, d := range details {
		texts[i] = cli.Printable(d.text(t.Limits.Value))
	}
	text := strings.Join(texts, " ")
	if warning {
		text = t.paint(yellow, text)
	}
	fmt.Fprintf(b, "    %s\n", text)
}

func objectName(e Event) string {
	if e.Namespace == "" {
		return e.Name
	}
	return e.Namespace + "/" + e.Name
}

// remarks returns what follows the object's name.
func remarks(e Event, by diff.Manager) string {
	var text string
	if by.Name != "" {
		text = " by " + managerText(by)
	}
	if e.Initial {
		text += " (there at the start)"
	}
	if e.FinalStateUnknown {
		text += " (while nobody was watching)"
	}
	return text
}

// managerText returns a manager's name, and the subresource through which it wrote.
func managerText(m diff.Manager) string {
	name := cli.Printable(m.Name)
	if m.Subresource != "" {
		name += "/" + cli.Printable(m.Subresource)
	}
	if m.Operation == "Apply" {
		name += " (apply)"
	}
	return name
}

func (t Text) change(b *strings.Builder, c diff.Change, name bool) {
	parts := partsOf(c, t.Limits.Value)
	if parts == nil {
		parts = linesOf(c, t.Limits.Value)
	}
	fmt.Fprintf(b, "    %s %s: %s", t.sign(c.Op), c.Path, t.difference(c, parts))
	b.WriteString(t.author(c, name))
	b.WriteByte('\n')
	t.lines(b, parts)
}

// author names who made a change, if name is set.
func (t Text) author(c diff.Change, name bool) string {
	if !name || c.By.Name == "" {
		return ""
	}
	return t.paint(dim, " by "+managerText(c.By))
}

func (t Text) sign(op diff.Op) string {
	switch op {
	case diff.Added:
		return t.paint(green, "+")
	case diff.Removed:
		return t.paint(red, "-")
	default:
		return t.paint(yellow, "~")
	}
}

// difference formats a change in one line. For multi-line texts it only says how much changed; lines has the details.
func (t Text) difference(c diff.Change, parts []part) string {
	order := ""
	if c.Op == diff.Reordered {
		order = "order "
	}
	switch {
	case c.Op == diff.Added:
		return t.value(c.New)
	case c.Op == diff.Removed:
		return t.value(c.Old)
	case len(parts) > 0 && parts[0].newLine > 0:
		return t.paint(dim, fmt.Sprintf("text of %s bytes changed in %s", thousands(len(c.New.(string))), places(len(parts))))
	case len(parts) > 0:
		p := parts[0]
		return fmt.Sprintf("%s%s → %s%s", order, p.quote(p.old, p.oldCut), p.quote(p.new, p.newCut),
			t.paint(dim, fmt.Sprintf(" (from byte %s of %s)", thousands(p.offset), thousands(len(text(c.New))))))
	default:
		return fmt.Sprintf("%s%s → %s", order, t.value(c.Old), t.value(c.New))
	}
}

// text returns the value as partsOf compares it.
func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return string(encode(v))
}

func places(n int) string {
	if n == 1 {
		return "1 place"
	}
	return fmt.Sprintf("%s places", thousands(n))
}

// quote formats one side of a part, with marks for what is left out.
func (p part) quote(side string, cut bool) string {
	quoted := cli.Printable(side)
	if !p.isJSON {
		quoted = cli.Printable(string(encode(side)))
	}
	if p.offset > 0 {
		quoted = "…" + quoted
	}
	if cut {
		quoted += "…"
	}
	return quoted
}

// lines writes the parts of multi-line texts: the number of each line, and the removed and added lines.
func (t Text) lines(b *strings.Builder, parts []part) {
	if len(parts) == 0 || parts[0].newLine == 0 {
		return
	}
	for i, p := range parts {
		if t.Limits.Changes > 0 && i == t.Limits.Changes {
			fmt.Fprintf(b, "        %s\n", t.paint(dim, fmt.Sprintf("+%s more", thousands(len(parts)-i))))
			return
		}
		t.side(b, p.oldLine, t.paint(red, "-"), p.old, p.offset > 0, p.oldCut)
		t.side(b, p.newLine, t.paint(green, "+"), p.new, p.offset > 0, p.newCut)
	}
}

func (t Text) side(b *strings.Builder, number int, sign, side string, more, cut bool) {
	if side == "" {
		return
	}
	lines := strings.Split(strings.TrimSuffix(side, "\n"), "\n")
	for i, line := range lines {
		line = cli.Printable(line)
		if i == 0 && more {
			line = "…" + line
		}
		if i == len(lines)-1 && cut {
			line += "…"
		}
		fmt.Fprintf(b, "        %d %s %s\n", number+i, sign, line)
	}
}

// value formats a value as JSON, shortened to the limit.
func (t Text) value(v any) string {
	text := cli.Printable(string(encode(v)))
	short, cut := shorten(text, t.Limits.Value)
	if !cut {
		return text
	}
	return short + t.paint(dim, fmt.Sprintf("… (%s bytes)", thousands(len(text))))
}

// Status formats the status as one line, which begins with "--" to distinguish it from a change.
func (t Text) Status(s Status) []byte {
	where := cmp.Or(s.Resource.Name(), "server")
	if s.Namespace != "" {
		where += " in " + s.Namespace
	}
	line := fmt.Sprintf("%s -- %s: %s", s.Time.Format(clock), cli.Printable(where), cli.Printable(strings.ReplaceAll(s.Message, "\n", " ")))
	return []byte(cli.Wrap(paint(t.StatusColors, dim, line)+"\n", columns(t.StatusWidth), 0))
}

func (t Text) paint(color, text string) string {
	return paint(t.Colors, color, text)
}

func paint(colors bool, color, text string) string {
	if !colors || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}
