package diff

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// fieldSets looks up values in the field sets of managed fields, which are in the FieldsV1 format. It caches the parsed
// list elements of each set by the set's identity, since their names are JSON, which is expensive to parse.
type fieldSets map[uintptr]elements

// closest returns the entries that own the changed value most closely, and the depth of what they own: the value itself
// or something below it, or else the nearest value above it.
func (s fieldSets) closest(entries []entry, c *Change) (found []entry, best int) {
	for _, e := range entries {
		switch depth, ok := s.owns(e.fields, c); {
		case !ok || depth < best:
		case depth > best:
			found, best = []entry{e}, depth
		default:
			found = append(found, e)
		}
	}
	return found, best
}

// owns reports whether a field set includes the changed value, something below it or, as a leaf, a
// value above it. depth is the number of steps down the path. A leaf may be a value that is owned
// as a whole, or just a map whose fields others own, so the owner of the deeper path takes
// precedence.
func (s fieldSets) owns(fields map[string]any, c *Change) (depth int, ok bool) {
	if fields == nil {
		return 0, false
	}
	for i, step := range c.Path {
		child := s.descend(fields, step, c.trail[i])
		if child == nil {
			return i, i > 0 && len(fields) == 0
		}
		fields = child
	}
	return len(c.Path), true
}

// descend follows one step, which leads to value. The result is nil if the set does not include it.
func (s fieldSets) descend(fields map[string]any, step Step, value any) map[string]any {
	if !step.InList {
		child, _ := fields["f:"+step.Field].(map[string]any)
		return child
	}
	if len(step.Keys) == 0 {
		if child, ok := fields["i:"+strconv.Itoa(step.Index)].(map[string]any); ok {
			return child
		}
	}
	id := reflect.ValueOf(fields).Pointer()
	known, ok := s[id]
	if !ok {
		known = readElements(fields)
		s[id] = known
	}
	return known.find(value)
}

// elements are the list elements in a field set.
type elements struct {
	keys   [][]string                // the combinations of key fields in use: one, if the list has one schema
	byKey  map[string]map[string]any // `k:{"name":"web"}`: elements that are maps, by identify
	values map[any]map[string]any    // `v:"web"`: elements that are scalars, with numbers as float64
}

func readElements(fields map[string]any) elements {
	e := elements{byKey: map[string]map[string]any{}, values: map[any]map[string]any{}}
	for name, member := range fields {
		child, _ := member.(map[string]any)
		text, isKey := strings.CutPrefix(name, "k:")
		if isKey {
			e.addKeyed(text, child)
		} else if text, isValue := strings.CutPrefix(name, "v:"); isValue {
			var v any
			if json.Unmarshal([]byte(text), &v) == nil && isScalar(v) {
				e.values[v] = child
			}
		}
	}
	return e
}

func (e *elements) addKeyed(text string, child map[string]any) {
	fields := parseKey(text)
	if fields == nil && json.Unmarshal([]byte(text), &fields) != nil || len(fields) == 0 {
		return
	}
	key := slices.Sorted(maps.Keys(fields))
	id, ok := identify(fields, key)
	if !ok {
		return
	}
	e.byKey[id] = child
	if !slices.ContainsFunc(e.keys, func(known []string) bool { return slices.Equal(known, key) }) {
		e.keys = append(e.keys, key)
	}
}

// parseKey parses the name of an element with one field that is a plain string, as most have, such as {"name":"web"};
// nil for any other.
func parseKey(text string) map[string]any {
	text, begins := strings.CutPrefix(text, `{"`)
	text, ends := strings.CutSuffix(text, `"}`)
	name, value, ok := strings.Cut(text, `":"`)
	if !begins || !ends || !ok || strings.ContainsAny(name, `"\`) || strings.ContainsAny(value, `"\`) {
		return nil
	}
	return map[string]any{name: value}
}

// find returns the field set of an element of a list, or nil if there is none.
func (e elements) find(element any) map[string]any {
	for _, key := range e.keys {
		if id, ok := identify(element, key); ok && e.byKey[id] != nil {
			return e.byKey[id]
		}
	}
	if n, ok := element.(int64); ok {
		element = float64(n)
	}
	if !isScalar(element) {
		return nil
	}
	return e.values[element]
}
