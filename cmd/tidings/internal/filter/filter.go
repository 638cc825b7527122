// Package filter selects the changes that a person wants to see, and counts the others.
package filter

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tidings/tidings/cmd/tidings/internal/diff"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
)

// Flags are the flags that select changes.
type Flags struct {
	Sections []string // parts of an object: spec, status, metadata, or another field at its top
	Paths    []string // patterns of field paths
	Ignore   []string
	Managers []string
	Ops      []string
	Text     string
	Where    string // a CEL expression
	All      bool
}

// Bind binds the flags.
func (f *Flags) Bind(set *pflag.FlagSet) {
	set.StringSliceVar(&f.Sections, "changes", nil, "only changes of these parts: spec, status, metadata")
	set.StringSliceVar(&f.Paths, "path", nil, "only changes of fields at or below this `path`, such as spec.template or **.image")
	set.StringSliceVar(&f.Ignore, "ignore", nil, "no changes of fields at or below this `path`")
	set.StringSliceVar(&f.Managers, "manager", nil, "only changes by these field managers, such as kubectl* or kubelet")
	set.StringSliceVar(&f.Ops, "op", nil, "only these: add, update, delete")
	set.StringVar(&f.Text, "grep", "", "only changes whose shown `text` contains this, in any case")
	set.StringVar(&f.Where, "where", "", "only changes for which this `CEL` expression over old, new and change is true")
	set.BoolVar(&f.All, "all", false, "also what only ticks: renewals, heartbeats, repeated events, rewrites without a change")
}

// Filter is a compiled filter, which counts what it hides. It is for one goroutine.
type Filter struct {
	flags         Flags
	paths, ignore []pattern
	where         *where // nil without --where
	hidden        Hidden
	print         func(news.Event) []byte
}

// Hidden counts what a filter has hidden.
type Hidden struct {
	Ticks     map[string]int // events that only tick, by what they are
	Fields    int            // ticking fields of events that are shown
	Unmatched int            // events that flags exclude
}

// The operations of --op.
var ops = map[string][]news.Type{
	"add": {news.Added}, "update": {news.Modified, news.Replaced}, "delete": {news.Deleted},
}

// Compile checks the flags. plain formats an event without colors, for --grep.
func (f Flags) Compile(plain func(news.Event) []byte) (*Filter, error) {
	out := &Filter{flags: f, print: plain, hidden: Hidden{Ticks: map[string]int{}}}
	for _, op := range f.Ops {
		if ops[op] == nil {
			return nil, fmt.Errorf("--op %q: want add, update or delete", op)
		}
	}
	for _, name := range f.Sections {
		if err := checkSection(name); err != nil {
			return nil, fmt.Errorf("--changes %q: %w", name, err)
		}
	}
	for _, name := range f.Managers {
		if _, err := path.Match(name, ""); err != nil {
			return nil, fmt.Errorf("--manager %q: %w", name, err)
		}
	}
	if f.Where != "" {
		var err error
		if out.where, err = compileWhere(f.Where); err != nil {
			return nil, err
		}
	}
	for flag, texts := range map[string][]string{"path": f.Paths, "ignore": f.Ignore} {
		for _, text := range texts {
			p, err := compile(text)
			if err != nil {
				return nil, fmt.Errorf("--%s %q: %w", flag, text, err)
			}
			if flag == "path" {
				out.paths = append(out.paths, p)
			} else {
				out.ignore = append(out.ignore, p)
			}
		}
	}
	return out, nil
}

// Apply removes from the event the changes that are not wanted, and reports whether something is
// left to show. An initial object is not a change: only the operations, the text and --where apply.
func (f *Filter) Apply(e *news.Event) bool {
	if f == nil {
		return true
	}
	if !f.matches(e) {
		f.hidden.Unmatched++
		return false
	}
	if !f.flags.All {
		if tick := f.quiet(e); tick != "" {
			f.hidden.Ticks[tick]++
			return false
		}
	}
	if f.flags.Text != "" && !strings.Contains(strings.ToLower(string(f.print(*e))), strings.ToLower(f.flags.Text)) {
		f.hidden.Unmatched++
		return false
	}
	return true
}

func (f *Filter) matches(e *news.Event) bool {
	if len(f.flags.Ops) > 0 && !slices.ContainsFunc(f.flags.Ops, func(op string) bool { return slices.Contains(ops[op], e.Type) }) {
		return false
	}
	if f.where != nil && !f.where.matches(e) { // before fields are left out
		return false
	}
	if e.Type != news.Modified && e.Type != news.Replaced {
		if !e.Initial && len(f.flags.Sections)+len(f.paths) > 0 && len(f.flags.Ops) == 0 {
			return false // all of the object came or went, and nothing of it was asked for
		}
		return len(f.flags.Managers) == 0 || e.Type == news.Added && f.isManager(e.By)
	}
	if !f.selects() {
		return true
	}
	e.Changes = slices.DeleteFunc(slices.Clone(e.Changes), func(c diff.Change) bool { return !f.wants(e, c) })
	return len(e.Changes) > 0
}

// selects reports whether there are filters for single fields.
func (f *Filter) selects() bool {
	return len(f.flags.Sections)+len(f.flags.Managers)+len(f.paths)+len(f.ignore) > 0
}

func (f *Filter) wants(e *news.Event, c diff.Change) bool {
	by := managerOf(e, c)
	at := c.Path.String()
	return (len(f.flags.Sections) == 0 || len(c.Path) > 0 && slices.Contains(f.flags.Sections, c.Path[0].Field)) &&
		(len(f.flags.Managers) == 0 || f.isManager(by)) &&
		(len(f.paths) == 0 || slices.ContainsFunc(f.paths, func(p pattern) bool { return p.matches(at) || p.isBelow(at) })) &&
		!slices.ContainsFunc(f.ignore, func(p pattern) bool { return p.matches(at) })
}

func (f *Filter) isManager(m diff.Manager) bool {
	return slices.ContainsFunc(f.flags.Managers, func(name string) bool {
		ok, err := path.Match(name, m.Name)
		return err == nil && ok
	})
}

// SelectsChanges reports whether there are filters for single changes.
func (f *Filter) SelectsChanges() bool {
	return f != nil && (f.selects() || f.where != nil || len(f.flags.Ops) > 0)
}

// All reports whether what only ticks is wanted too.
func (f *Filter) All() bool { return f != nil && f.flags.All }

// Lines returns the lines that have the text of --grep.
func (f *Filter) Lines(text []byte) []byte {
	if f == nil || f.flags.Text == "" {
		return text
	}
	var kept []byte
	for line := range strings.Lines(string(text)) {
		if strings.Contains(strings.ToLower(line), strings.ToLower(f.flags.Text)) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// HiddenCount returns the number of changes that have been hidden.
func (f *Filter) HiddenCount() int {
	n := f.hidden.Unmatched
	for _, ticks := range f.hidden.Ticks {
		n += ticks
	}
	return n
}

// Hidden returns one line about what has been hidden, or "".
func (f *Filter) Hidden() string {
	if f == nil {
		return ""
	}
	var parts []string
	for _, what := range tickNames {
		if n := f.hidden.Ticks[what.one]; n == 1 {
			parts = append(parts, "1 "+what.one)
		} else if n > 1 {
			parts = append(parts, fmt.Sprint(n, " ", what.many))
		}
	}
	if f.hidden.Fields > 0 {
		parts = append(parts, fmt.Sprint(f.hidden.Fields, " ticking fields of changes that are shown"))
	}
	text := ""
	if len(parts) > 0 {
		text = "hidden: " + strings.Join(parts, ", ") + " (--all shows them)"
	}
	if f.hidden.Unmatched > 0 {
		if text != "" {
			text += "; "
		}
		text += fmt.Sprint(f.hidden.Unmatched, " did not match the filters")
		if why := f.where.report(); why != "" {
			text += "; " + why
		}
	}
	return text
}

// pattern is a pattern of field paths.
type pattern struct {
	re      *regexp.Regexp
	literal string // the beginning without wildcards
}

var (
	errEmptyPath = errors.New("the path is empty")
	errEmptyStep = errors.New("nothing stands between two dots")
	errBrackets  = errors.New("a bracket has no partner; an element of a list is named as in containers[name=web]")
)

// compile compiles a pattern: "*" stands for anything within a step, "**" for any number of steps.
// It matches the field and what is below it.
func compile(text string) (p pattern, err error) {
	text = strings.TrimSuffix(strings.TrimSuffix(text, "…"), "...")
	text = strings.TrimPrefix(strings.TrimSuffix(text, "."), ".")
	if text == "" {
		return p, errEmptyPath
	}
	if err := checkSteps(text); err != nil {
		return p, err
	}
	p.literal, _, _ = strings.Cut(text, "*")
	quoted := regexp.QuoteMeta(text)
	quoted = strings.ReplaceAll(quoted, `\*\*\.`, "(?:.*[.])?")
	quoted = strings.ReplaceAll(quoted, `\*\*`, ".*")
	quoted = strings.ReplaceAll(quoted, `\*`, `[^.\[\]]*`)
	p.re, err = regexp.Compile("^" + quoted + `(?:$|[.\[])`)
	return p, err
}

// checkSteps checks that a pattern can match a path. Inside of brackets anything may stand.
func checkSteps(text string) error {
	open, before := false, '.'
	for _, c := range text {
		switch {
		case c == '[' && !open, c == ']' && open:
			open = !open
		case c == ']', c == '[':
			return errBrackets
		case c == '.' && before == '.' && !open:
			return errEmptyStep
		}
		before = c
	}
	if open {
		return errBrackets
	}
	return nil
}

// checkSection rejects what cannot be a field at the top of an object, and what is likely to be mistyped.
func checkSection(name string) error {
	if !sectionName.MatchString(name) {
		return errors.New("want a field at the top of an object, such as spec or status; --path selects what is below")
	}
	for _, known := range sections {
		if name != known && strings.TrimSuffix(strings.ToLower(name), "s") == strings.TrimSuffix(known, "s") {
			return fmt.Errorf("did you mean %s?", known)
		}
	}
	return nil
}

var (
	sectionName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`)
	sections    = []string{"spec", "status", "metadata", "data"}
)

func (p pattern) matches(path string) bool { return p.re.MatchString(path) }

// isBelow reports whether the pattern is about fields below a path that was added or removed as a whole.
func (p pattern) isBelow(path string) bool {
	rest, ok := strings.CutPrefix(p.literal, path)
	return ok && rest != "" && (rest[0] == '.' || rest[0] == '[')
}
