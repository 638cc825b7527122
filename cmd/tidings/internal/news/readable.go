package news

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/diff"
)

// Readable says what changed as a person would: a condition as "Ready: False → True (reason)", the
// state of a container by its name, an image by the name of its container, and everything else as
// "field: old → new", with values of at most limit bytes. Changes that belong together are one
// text.
func Readable(changes []diff.Change, limit int) []string {
	var texts []string
	for _, group := range readable(changes) {
		if text := group.text; text != "" {
			texts = append(texts, text)
			continue
		}
		texts = append(texts, plainText(group.change, limit))
	}
	return texts
}

// readableGroup is a change, or several that are one text.
type readableGroup struct {
	change diff.Change // the first
	text   string      // "" if it is an ordinary change
}

// readable groups the changes.
func readable(changes []diff.Change) (groups []readableGroup) {
	seen := map[string]bool{}
	for _, c := range changes {
		if texts := newConditions(c); texts != nil {
			for _, text := range texts {
				groups = append(groups, readableGroup{c, cli.Printable(text)})
			}
			continue
		}
		if text, ok := deletionText(c, changes); ok {
			if text != "" {
				groups = append(groups, readableGroup{c, text})
			}
			continue
		}
		kind, name, depth := element(c)
		var text string
		switch kind {
		case "conditions":
			text = conditionText(name, within(changes, c.Path[:depth]), c, depth)
		case "containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses":
			text = containerText(name, within(changes, c.Path[:depth]), depth)
		case "containers", "initContainers":
			if len(c.Path) == depth+1 && c.Path[depth].Field == "image" {
				text = fmt.Sprintf("%s: image %v → %v", name, c.Old, c.New)
				groups = append(groups, readableGroup{c, cli.Printable(text)})
				continue
			}
		}
		if text == "" {
			groups = append(groups, readableGroup{change: c})
			continue
		}
		if at := c.Path[:depth].String(); !seen[at] {
			seen[at] = true
			groups = append(groups, readableGroup{c, cli.Printable(text)})
		}
	}
	return groups
}

// deletionText describes the fields that the server sets when an object is to be deleted, as one
// text: ok is set for each of them, and text for the first.
func deletionText(c diff.Change, changes []diff.Change) (text string, ok bool) {
	if c.Op != diff.Added || len(c.Path) != 2 || c.Path[0].Field != "metadata" {
		return "", false
	}
	const grace, timestamp = "deletionGracePeriodSeconds", "deletionTimestamp"
	find := func(name string) any {
		i := slices.IndexFunc(changes, func(c diff.Change) bool { return len(c.Path) == 2 && c.Path[1].Field == name && c.Op == diff.Added })
		if i < 0 {
			return nil
		}
		return changes[i].New
	}
	at, period := find(timestamp), find(grace)
	switch {
	case at == nil:
		return "", false
	case c.Path[1].Field == timestamp:
		text = fmt.Sprint("being deleted since ", at)
		if period != nil {
			text = fmt.Sprintf("being deleted: until %v, a grace period of %vs", at, period)
		}
		return cli.Printable(text), true
	}
	return "", c.Path[1].Field == grace
}

// newConditions describes the conditions of an object that had none before.
func newConditions(c diff.Change) (texts []string) {
	if c.Op != diff.Added || len(c.Path) == 0 || c.Path[len(c.Path)-1].Field != "conditions" {
		return nil
	}
	for _, condition := range list(c.New) {
		name, ok := at(condition, "type").(string)
		if !ok {
			return nil
		}
		texts = append(texts, name+": "+fmt.Sprint(at(condition, "status"))+because(condition))
	}
	return texts
}

// element returns the list whose keyed element a change is in, the element's key, and the depth of the element.
func element(c diff.Change) (list, name string, depth int) {
	for i, step := range c.Path {
		if i > 0 && len(step.Keys) == 1 {
			return c.Path[i-1].Field, fmt.Sprint(step.Keys[0].Value), i + 1
		}
	}
	return "", "", 0
}

// within returns the changes at or below a path.
func within(changes []diff.Change, path diff.Path) (found []diff.Change) {
	at := path.String()
	for _, c := range changes {
		if len(c.Path) >= len(path) && c.Path[:len(path)].String() == at {
			found = append(found, c)
		}
	}
	return found
}

// conditionText describes the changes of one condition, "" if its status, reason and message did not change.
func conditionText(name string, changes []diff.Change, c diff.Change, depth int) string {
	if len(c.Path) == depth { // the whole condition
		switch c.Op {
		case diff.Added:
			return name + ": " + fmt.Sprint(at(c.New, "status")) + because(c.New)
		case diff.Removed:
			return name + ": " + fmt.Sprint(at(c.Old, "status")) + " → gone"
		}
		return ""
	}
	var status string
	changed := false
	for _, c := range changes {
		switch last := c.Path[len(c.Path)-1].Field; last {
		case "status":
			status = fmt.Sprintf("%v → %v", c.Old, c.New)
			changed = true
		case "reason", "message":
			changed = true
		}
	}
	if !changed {
		return ""
	}
	now := c.Value(depth)
	if status == "" {
		status = fmt.Sprint(at(now, "status"))
	}
	return name + ": " + status + because(now)
}

// because returns a condition's reason and message in parentheses.
func because(condition any) string {
	var parts []string
	for _, field := range []string{"reason", "message"} {
		if text, ok := at(condition, field).(string); ok && text != "" {
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ": ") + ")"
}

// containerText describes how the state of a container changed, "" if what changed is not its state.
func containerText(name string, changes []diff.Change, depth int) string {
	var was, is any
	var parts []string
	for _, c := range changes {
		if len(c.Path) == depth { // the whole status
			was, is = at(c.Old, "state"), at(c.New, "state")
			break
		}
		switch c.Path[depth].Field {
		case "state":
			if len(c.Path) > depth+1 {
				state := map[string]any{c.Path[depth+1].Field: c.Value(depth + 2)}
				if c.Op == diff.Removed {
					was = state
				} else {
					is = state
				}
			}
		case "ready":
			if c.New == true {
				parts = append(parts, "ready")
			} else {
				parts = append(parts, "not ready")
			}
		case "restartCount":
			parts = append(parts, fmt.Sprint("restarts ", c.New))
		case "image":
			parts = append(parts, fmt.Sprintf("image %v → %v", c.Old, c.New))
		}
	}
	switch before, after := stateText(was), stateText(is); {
	case before != "" && after != "":
		parts = slices.Insert(parts, 0, before+" → "+after)
	case after != "":
		parts = slices.Insert(parts, 0, after)
	}
	if len(parts) == 0 {
		return ""
	}
	return name + ": " + strings.Join(parts, ", ")
}

// stateText names the state of a container, and why it is in it.
func stateText(state any) string {
	m, _ := state.(map[string]any)
	for _, name := range []string{"running", "terminated", "waiting"} {
		details, ok := m[name]
		if !ok {
			continue
		}
		text := name
		if reason, ok := at(details, "reason").(string); ok {
			text += " " + reason
		}
		if code := at(details, "exitCode"); code != nil && code != int64(0) {
			text += fmt.Sprint(" (exit code ", code, ")")
		}
		return text
	}
	return ""
}

// plainText describes any change.
func plainText(c diff.Change, limit int) string {
	show := func(v any) string {
		text := cli.Printable(string(encode(v)))
		if s, ok := v.(string); ok && s != "" && !strings.ContainsAny(s, " \t\n\"") {
			text = cli.Printable(s)
		}
		if short, cut := shorten(text, limit); cut {
			return short + "…"
		}
		return text
	}
	switch c.Op {
	case diff.Added:
		return fmt.Sprintf("+%s: %s", c.Path, show(c.New))
	case diff.Removed:
		return fmt.Sprintf("-%s: %s", c.Path, show(c.Old))
	default:
		return fmt.Sprintf("%s: %s → %s", c.Path, show(c.Old), show(c.New))
	}
}
