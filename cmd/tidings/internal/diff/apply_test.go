package diff

import (
	"fmt"
	"slices"
)

// apply is a simple model: it applies the changes to a copy of before.
func apply(before map[string]any, changes []Change) (map[string]any, error) {
	var root any = clone(before)
	for _, pass := range []Op{Removed, Changed, Reordered, Added} {
		for _, c := range inOrder(changes, pass) {
			if c.Op != pass {
				continue
			}
			var err error
			if root, err = applyAt(root, c.Path, c); err != nil {
				return nil, fmt.Errorf("%s %s: %w", c.Op, c.Path, err)
			}
		}
	}
	return root.(map[string]any), nil
}

// inOrder reverses removals, so that positions stay valid while elements are removed. Positional changes come
// before the removed run, and changed elements never come after it, so removing first does not move them.
func inOrder(changes []Change, op Op) []Change {
	ordered := slices.Clone(changes)
	if op == Removed {
		slices.Reverse(ordered)
	}
	return ordered
}

func applyAt(node any, path Path, c Change) (any, error) {
	if len(path) == 0 {
		if c.Op == Reordered {
			return reorder(node.([]any), c.New.([]any))
		}
		return c.New, nil
	}
	step, last := path[0], len(path) == 1
	if !step.InList {
		m, ok := node.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("not a map at %q", step.Field)
		}
		if last && c.Op == Removed {
			delete(m, step.Field)
			return m, nil
		}
		child, err := applyAt(m[step.Field], path[1:], c)
		m[step.Field] = child
		return m, err
	}
	list := node.([]any)
	if last && c.Op == Added {
		return slices.Insert(list, c.at, c.New), nil
	}
	at := step.find(list)
	if at < 0 {
		return nil, fmt.Errorf("no such element: %v", step)
	}
	if last && c.Op == Removed {
		return slices.Delete(list, at, at+1), nil
	}
	child, err := applyAt(list[at], path[1:], c)
	list[at] = child
	return list, err
}

func reorder(list, keys []any) (any, error) {
	key, _, _ := commonKey(list, nil)
	if key == nil {
		return nil, fmt.Errorf("reorder of a list without keys")
	}
	result := make([]any, 0, len(list))
	for _, want := range keys {
		values := []any{want}
		if len(key) > 1 {
			values = want.([]any)
		}
		step := Step{InList: true}
		for i, name := range key {
			step.Keys = append(step.Keys, KeyValue{Key: name, Value: values[i]})
		}
		at := step.find(list)
		if at < 0 {
			return nil, fmt.Errorf("no element %v", want)
		}
		result = append(result, list[at])
	}
	return result, nil
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for name, value := range v {
			m[name] = clone(value)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, value := range v {
			l[i] = clone(value)
		}
		return l
	}
	return v
}

// find returns the position of the element to which the step leads, or -1 if there is none.
func (s Step) find(list []any) int {
	if len(s.Keys) == 0 {
		if s.Index < len(list) {
			return s.Index
		}
		return -1
	}
	return slices.IndexFunc(list, func(element any) bool {
		fields, ok := element.(map[string]any)
		return ok && !slices.ContainsFunc(s.Keys, func(kv KeyValue) bool { return !equal(fields[kv.Key], kv.Value) })
	})
}
