// Package blame says of every field of an object who set it, and when.
package blame

import (
	"bytes"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/diff"
	"github.com/tidings/tidings/cmd/tidings/internal/moments"
	"github.com/tidings/tidings/internal/redact"
)

// Set is the last recorded change of a field.
type Set struct {
	Time time.Time
	By   diff.Manager
	Old  any
	// Added says that there was no value before.
	Added bool
}

// Recorded returns the last state of an object, and the last change of each field of it by its path.
func Recorded(o *moments.Object) (last map[string]any, sets map[string]Set, err error) {
	sets = map[string]Set{}
	for item, err := range o.Changes() {
		if err != nil {
			return nil, nil, err
		}
		if item.After != nil {
			last = item.After.Object
		}
		if item.Before == nil || item.After == nil { // what was set before it was deleted was set in another object
			clear(sets)
			continue
		}
		before, after := redact.Pair(o.Resource.GroupResource(), item.Before.Object, item.After.Object)
		for _, c := range diff.Objects(before, after, diff.Options{}).Changes {
			sets[c.Path.String()] = Set{Time: item.Time, By: c.By, Old: c.Old, Added: c.Op == diff.Added}
		}
	}
	return last, sets, nil
}

// row is a line of the output: a field, and what is known of it.
type row struct {
	field, note, who string
}

// Text formats an object as YAML, each field with who owns it and when they last wrote, and with
// the recorded change that set it. The object must have been redacted. Lines have at most width
// characters; 0 means any width.
func Text(object map[string]any, sets map[string]Set, width int, now time.Time) []byte {
	rows := rowsOf(object, sets, now)
	most := 0
	for _, r := range rows {
		most = max(most, utf8.RuneCountInString(r.who))
	}
	var b bytes.Buffer
	for _, r := range rows {
		pad := strings.Repeat(" ", most-utf8.RuneCountInString(r.who))
		line := r.who + pad + "  " + r.field
		switch note := "   # " + r.note; {
		case r.note == "":
		case width > 0 && utf8.RuneCountInString(line+note) > width: // below the field
			depth := len(r.field) - len(strings.TrimLeft(r.field, " "))
			note = note[1:]
			line += "\n" + strings.Repeat(" ", max(min(most+2+depth, width-utf8.RuneCountInString(note)), 0)) + note
		default:
			line += note
		}
		fmt.Fprintf(&b, "%s\n", strings.TrimRight(line, " "))
	}
	return []byte(cli.Fit(b.String(), width))
}

// rowsOf returns a row for each leaf, preceded by those of the maps and lists around it that the row before was not in.
func rowsOf(object map[string]any, sets map[string]Set, now time.Time) (rows []row) {
	var open diff.Path
	for _, leaf := range diff.Leaves(object) {
		if len(leaf.Path) == 0 {
			continue // an empty object
		}
		common := 0
		for common < len(open) && common < len(leaf.Path)-1 && open[:common+1].String() == leaf.Path[:common+1].String() {
			common++
		}
		for i := common; i < len(leaf.Path)-1; i++ {
			rows = append(rows, row{field: indent(i) + label(leaf.Path[i]) + ":"})
		}
		open = leaf.Path[:max(len(leaf.Path)-1, 0)]
		depth := len(leaf.Path) - 1
		value := cli.Printable(fmt.Sprint(leaf.Value))
		switch v := leaf.Value.(type) {
		case string:
			if v == "" || strings.ContainsAny(v, "\n\t") {
				value = fmt.Sprintf("%q", v)
			}
		case map[string]any:
			value = "{}"
		case []any:
			value = "[]"
		case nil:
			value = "null"
		}
		text := indent(depth) + label(leaf.Path[depth]) + ": " + value
		note := ""
		if set, known := setOf(leaf.Path, sets); known {
			note = changed(set)
		}
		rows = append(rows, row{text, note, who(leaf.Owners, now)})
	}
	return rows
}

func indent(depth int) string { return strings.Repeat("  ", depth) }

// label names a step as in the paths of tail.
func label(s diff.Step) string { return strings.TrimPrefix(diff.Path{s}.String(), ".") }

// setOf returns the last recorded change of a field, or of what it is in.
func setOf(path diff.Path, sets map[string]Set) (set Set, ok bool) {
	for n := len(path); n > 0; n-- {
		if s, found := sets[path[:n].String()]; found && (!ok || s.Time.After(set.Time)) {
			set, ok = s, true
		}
	}
	return set, ok
}

func changed(s Set) string {
	text := "set at " + s.Time.Local().Format("15:04:05.000")
	if s.By.Name != "" {
		text += " by " + cli.Printable(s.By.Name)
	}
	if s.Added || s.Old == nil {
		return text
	}
	old := []rune(cli.Printable(fmt.Sprint(s.Old)))
	if len(old) > 40 {
		old = append(old[:39], '…')
	}
	return text + ", was " + string(old)
}

// who names the owners of a field, and the age of their last write.
func who(owners []diff.Owner, now time.Time) string {
	var texts []string
	for _, o := range owners {
		text := cli.Printable(o.Name)
		if o.Subresource != "" {
			text += "/" + cli.Printable(o.Subresource)
		}
		if o.Operation == "Apply" {
			text += " (apply)"
		}
		if at, err := time.Parse(time.RFC3339, o.Time); err == nil {
			text += " " + age(now.Sub(at))
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// age formats a time since as kubectl does.
func age(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
