package news

import (
	"fmt"
	"strings"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/diff"
)

// Limits bound what is shown of one event. 0 means no limit.
type Limits struct {
	// Changes is how many changes are shown; the others are counted.
	Changes int
	// Value is how many bytes of a value are shown; its length is told.
	Value int
}

// Text writes events and status for people. Its methods return whole lines and may be called from several goroutines.
type Text struct {
	Limits Limits
	// Colors is for events and StatusColors for status, which may go to different places.
	Colors, StatusColors bool
}

// The colors, as terminals number them.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	dim    = "2"
)

const clock = "15:04:05.000"

var typeColors = map[Type]string{Added: green, Modified: yellow, Replaced: yellow, Deleted: red}

// Event writes the event: one line that says what happened to which object and by whom, and below it one line
// for each field that changed.
func (t Text) Event(e Event) []byte {
	var b strings.Builder
	by, mixed := e.manager()
	fmt.Fprintf(&b, "%s %s %s %s%s\n", t.paint(dim, e.Time.Format(clock)), t.paint(typeColors[e.Type], fmt.Sprintf("%-8s", e.Type)),
		cli.Printable(e.Resource.Name()), cli.Printable(objectName(e)), t.paint(dim, remarks(e, by)))
	for i, change := range e.Changes {
		if t.Limits.Changes > 0 && i == t.Limits.Changes {
			fmt.Fprintf(&b, "    %s\n", t.paint(dim, fmt.Sprintf("+%s more", thousands(len(e.Changes)-i))))
			break
		}
		t.change(&b, change, mixed)
	}
	if len(e.Changes) == 0 && len(e.Hidden) > 0 {
		fmt.Fprintf(&b, "    %s\n", t.paint(dim, "no change but in "+strings.Join(e.Hidden, ", ")))
	}
	return []byte(b.String())
}

func objectName(e Event) string {
	if e.Namespace == "" {
		return e.Name
	}
	return e.Namespace + "/" + e.Name
}

// remarks is what follows the object's name.
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

// managerText names a manager, and what it wrote through.
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
	path := c.Path.String()
	switch c.Op {
	case diff.Added:
		fmt.Fprintf(b, "    %s %s: %s", t.paint(green, "+"), path, t.value(c.New))
	case diff.Removed:
		fmt.Fprintf(b, "    %s %s: %s", t.paint(red, "-"), path, t.value(c.Old))
	case diff.Reordered:
		fmt.Fprintf(b, "    %s %s: order %s → %s", t.paint(yellow, "~"), path, t.value(c.Old), t.value(c.New))
	default:
		fmt.Fprintf(b, "    %s %s: %s → %s", t.paint(yellow, "~"), path, t.value(c.Old), t.value(c.New))
	}
	if name && c.By.Name != "" {
		b.WriteString(t.paint(dim, " by "+managerText(c.By)))
	}
	b.WriteByte('\n')
}

// value writes a value as JSON, shortened to the limit.
func (t Text) value(v any) string {
	text := cli.Printable(string(encode(v)))
	short, cut := shorten(text, t.Limits.Value)
	if !cut {
		return text
	}
	return short + t.paint(dim, fmt.Sprintf("… (%s bytes)", thousands(len(text))))
}

// Status writes the status as one line, which begins with "--" so that nobody takes it for a change.
func (t Text) Status(s Status) []byte {
	where := s.Resource.Name()
	if s.Namespace != "" {
		where += " in " + s.Namespace
	}
	line := fmt.Sprintf("%s -- %s: %s", s.Time.Format(clock), cli.Printable(where), cli.Printable(strings.ReplaceAll(s.Message, "\n", " ")))
	return []byte(paint(t.StatusColors, dim, line) + "\n")
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
