package tail

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/filter"
)

// keyHelp describes the keys.
const keyHelp = `-- keys:
--   /         only changes with a text; esc shows all
--   f         all filters, typed as flags: --path '**.image' --manager kubectl*
--   1, 2, 3   only changes of the spec, the status, the metadata; again for all
--   s         the fields instead of the story, or the story again
--   a         also what is not in the story, or only ticks; or not
--   p, space  pause: what happens meanwhile is kept, and shown afterwards
--   enter     an empty line
--   q, ctrl-C quit
`

// keyHints are the most important keys, for the last line.
const keyHints = "/ text  f filters  s fields  a all  p pause  ? keys  q quit"

// sections are the parts of an object that a key selects.
var sections = map[string]string{"1": "spec", "2": "status", "3": "metadata"}

// desk is where a person at the terminal sets what is shown. Without one, there is no keyboard.
type desk struct {
	keyboard *cli.Keyboard
	typing   typing
	typed    string
	mistake  string // in what was typed; shown until the next key
}

// typing is what keys are characters of.
type typing int

const (
	nothing typing = iota
	textFilter
	allFilters
)

// openKeyboard reads keys from now on, if somebody is there. It is called when something has been listed: before that,
// a credential plugin may ask for a password.
func (t *tail) openKeyboard() {
	if t.opts.Keyboard == nil || t.keyboard != nil {
		return
	}
	keyboard, err := t.opts.Keyboard(t.ctx)
	if err != nil { // in the background, for example
		t.opts.Keyboard = nil
		return
	}
	t.keyboard = keyboard
	t.showLive()
}

func (t *tail) closeKeyboard() {
	if t.keyboard != nil {
		t.keyboard.Close()
	}
}

// keys returns the channel of keys, or nil if there is no keyboard.
func (t *tail) keys() <-chan string {
	if t.keyboard == nil {
		return nil
	}
	return t.keyboard.Keys()
}

// onKey reacts to a key.
func (t *tail) onKey(key string) error {
	t.mistake = ""
	err := t.key(key)
	t.showLive()
	return err
}

func (t *tail) key(key string) error {
	if key == cli.KeyInterrupt {
		return errDone
	}
	if t.typing != nothing {
		return t.typeKey(key)
	}
	flags := t.opts.Filter.Flags()
	switch key {
	case "q":
		return errDone
	case "?":
		return t.screen.Err(t.ctx, []byte(keyHelp))
	case "p", " ":
		if t.held == nil {
			t.held = &held{}
			return nil
		}
		return t.release(t.ctx)
	case "/":
		t.typing, t.typed = textFilter, ""
	case "f":
		t.typing, t.typed = allFilters, strings.TrimLeft(flags.String()+" ", " ")
	case "s":
		t.asFields = !t.asFields
		return nil
	case "a":
		flags.All = !flags.All
		return t.setFilter(flags)
	case "1", "2", "3":
		flags.Sections = toggled(flags.Sections, sections[key])
		return t.setFilter(flags)
	case cli.KeyEscape:
		flags.Text = ""
		return t.setFilter(flags)
	case cli.KeyEnter:
		return t.write(t.ctx, []byte("\n"), true)
	}
	return nil
}

// toggled returns the names with this one, or without it if it was there.
func toggled(names []string, name string) []string {
	without := slices.DeleteFunc(slices.Clone(names), func(other string) bool { return other == name })
	if len(without) < len(names) {
		return without
	}
	return append(without, name)
}

// typeKey reacts to a key while a filter is typed.
func (t *tail) typeKey(key string) error {
	switch key {
	case cli.KeyEnter:
		return t.enter()
	case cli.KeyEscape:
		t.typing = nothing
	case cli.KeyClear:
		t.typed = ""
	case cli.KeyBackspace:
		if runes := []rune(t.typed); len(runes) > 0 {
			t.typed = string(runes[:len(runes)-1])
		}
	default:
		t.typed += key
	}
	return nil
}

// enter sets the filters that were typed. If there is a mistake in them, typing goes on.
func (t *tail) enter() error {
	flags := t.opts.Filter.Flags()
	if t.typing == textFilter {
		flags.Text = t.typed
	} else {
		var err error
		if flags, err = filter.Parse(t.typed); err != nil {
			t.mistake = err.Error()
			return nil
		}
	}
	return t.setFilter(flags)
}

// setFilter sets the filters for what comes, and says so in its place among the changes.
func (t *tail) setFilter(flags filter.Flags) error {
	next, err := t.opts.Filter.With(flags)
	if err != nil {
		t.mistake, _, _ = strings.Cut(err.Error(), "\n")
		return nil
	}
	t.typing = nothing
	if flags.String() == t.opts.Filter.Flags().String() {
		return nil
	}
	if err := t.showHidden(t.ctx, time.Now(), true); err != nil {
		return err
	}
	t.opts.Filter, t.hidden = next, ""
	text := flags.String()
	if text == "" {
		text = "no filters"
	}
	return t.write(t.ctx, fmt.Appendf(nil, "%s -- from here on: %s\n", time.Now().Format("15:04:05.000"),
		cli.Printable(text)), true)
}

// maxLive is how many lines that are not complete are shown.
const maxLive = 10

// showLive shows the lines of the story that are not complete, and the last line.
func (t *tail) showLive() {
	var lines []string
	if t.held == nil && !t.fields() {
		lines = t.opts.Story.Open()
		if more := len(lines) - maxLive; more > 0 {
			lines = append(lines[:maxLive:maxLive], fmt.Sprintf("-- and %d more", more))
		}
	}
	t.screen.Progress(append(lines, t.lastLine())...)
}

// lastLine is the line below the changes: what is typed, or what is shown and the keys.
func (t *tail) lastLine() string {
	switch {
	case t.mistake != "":
		return "-- " + t.mistake
	case t.typing == textFilter:
		return "-- only changes with: " + t.typed + "_"
	case t.typing == allFilters:
		return "-- filters: " + t.typed + "_"
	}
	parts := []string{fmt.Sprintf("%d shown", t.shown)}
	if n := t.opts.Filter.HiddenCount(); n > 0 {
		parts[0] += fmt.Sprintf(", %d hidden", n)
	}
	if t.held != nil {
		parts[0] = fmt.Sprintf("PAUSED, %d waiting", t.held.changes)
	}
	if text := t.opts.Filter.Flags().String(); text != "" {
		parts = append(parts, text)
	}
	return "-- " + strings.Join(append(parts, keyHints), "  ")
}
