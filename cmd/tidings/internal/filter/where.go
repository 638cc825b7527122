package filter

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/diff"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
)

// where is the condition of --where: a CEL expression over
//
//	old, new   the whole object before and after; null if there was or is none
//	change     what happened: type, kind, namespace, name, manager, and fields, a list of what changed,
//	           each with path, op, old, new and manager
type where struct {
	program cel.Program
	// failed counts the changes for which the expression has no value, because a field is missing
	// or has another type; first is the first such error.
	failed int
	first  string
}

func compileWhere(text string) (*where, error) {
	env, err := cel.NewEnv(
		cel.Variable("old", cel.DynType), cel.Variable("new", cel.DynType), cel.Variable("change", cel.MapType(cel.StringType, cel.DynType)),
		cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(),
	)
	if err != nil {
		return nil, fmt.Errorf("--where: %w", err)
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, explainIssues(text, issues)
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("--where: the result of %s is of type %s; want a condition, such as new.spec.replicas > 3", text, t)
	}
	program, err := env.Program(ast)
	if err != nil {
		return nil, fmt.Errorf("--where: %w", err)
	}
	return &where{program: program}, nil
}

// explainIssues says what is wrong with an expression, and marks where the first mistake is.
func explainIssues(text string, issues *cel.Issues) error {
	first := issues.Errors()[0]
	message := strings.TrimSuffix(first.Message, " (in container '')")
	if strings.HasPrefix(message, "undeclared reference to") && !strings.HasSuffix(message, "()'") {
		message += "; the variables are old, new and change, and texts are in quotes"
	}
	lines := strings.Split(text, "\n")
	line, column := first.Location.Line(), first.Location.Column()
	if line < 1 || line > len(lines) || column < 0 {
		return fmt.Errorf("--where: %s", message)
	}
	at := fmt.Sprintf("column %d", column+1)
	if len(lines) > 1 {
		at = fmt.Sprintf("line %d, ", line) + at
	}
	return fmt.Errorf("--where, %s: %s\n    %s\n    %s^", at, message, lines[line-1], strings.Repeat(" ", column))
}

// matches reports whether the condition holds. One that cannot be evaluated does not.
func (w *where) matches(e *news.Event) bool {
	value, _, err := w.program.Eval(map[string]any{"old": state(e.Before), "new": state(e.After), "change": changeValue(e)})
	if err == nil {
		if is, ok := value.Value().(bool); ok {
			return is
		}
		err = fmt.Errorf("the result is of type %s", value.Type())
	}
	if w.failed++; w.failed == 1 {
		w.first = err.Error()
	}
	return false
}

// report says for how many changes the condition could not be evaluated, or "".
func (w *where) report() string {
	if w == nil || w.failed == 0 {
		return ""
	}
	return fmt.Sprintf("--where has no value for %d of them (first: %s)", w.failed, cli.Printable(w.first))
}

// state returns an object as CEL sees it: null if there is none.
func state(object map[string]any) any {
	if object == nil {
		return nil
	}
	return object
}

func changeValue(e *news.Event) map[string]any {
	fields := make([]any, len(e.Changes))
	for i, c := range e.Changes {
		fields[i] = map[string]any{
			"path": c.Path.String(), "op": string(c.Op), "old": c.Old, "new": c.New, "manager": managerOf(e, c).Name,
		}
	}
	return map[string]any{
		"type": string(e.Type), "kind": e.Resource.Kind, "namespace": e.Namespace, "name": e.Name, "manager": e.By.Name, "fields": fields,
	}
}

// managerOf returns who made a change.
func managerOf(e *news.Event, c diff.Change) diff.Manager {
	if c.By.Name == "" {
		return e.By
	}
	return c.By
}
