package diff

import (
	"reflect"
	"slices"
	"strings"
)

// mergeKeys are the fields that identify the elements of a list, the most specific ones first. They are the
// merge keys of the built-in types, which custom resources usually follow. A key is used for a list only if
// every element has it and no two have the same.
var mergeKeys = [...][]string{
	{"uid"},
	{"containerPort", "protocol"},
	{"port", "protocol"},
	{"mountPath"},
	{"devicePath"},
	{"topologyKey", "whenUnsatisfiable"},
	{"name"},
	{"ip"},
	{"type"},
	{"key", "effect"},
	{"key"},
	{"topologyKey"},
	{"port"},
	{"containerPort"},
}

func (d *differ) lists(before, after []any) {
	if equal(before, after) {
		return // true of most lists in most changes; finding their merge key would cost more than everything else
	}
	if key, old, new := commonKey(before, after); key != nil {
		d.keyed(old, new, key)
		return
	}
	d.positional(before, after)
}

// commonKey returns the merge key that fits both lists, and their elements by it; nil if none does.
func commonKey(before, after []any) (key []string, old, new index) {
	if len(before)+len(after) == 0 {
		return nil, old, new
	}
	for _, key := range mergeKeys {
		if old, ok := newIndex(before, key); ok {
			if new, ok := newIndex(after, key); ok {
				return key, old, new
			}
		}
	}
	return nil, old, new
}

// identify returns a string that is equal for two elements if and only if the key's fields have the same values
// in both. ok is false if element is not a map or lacks one of the fields.
func identify(element any, key []string) (id string, ok bool) {
	fields, ok := element.(map[string]any)
	if !ok {
		return "", false
	}
	if name, isString := fields[key[0]].(string); isString && len(key) == 1 {
		return "'" + name, true // as text, without quotes, which only several values need
	}
	for _, name := range key {
		if !isScalar(fields[name]) {
			return "", false
		}
	}
	return elementStep(element, key).text(), true
}

func (s Step) text() string {
	var b strings.Builder
	for _, kv := range s.Keys {
		if _, isString := kv.Value.(string); isString {
			b.WriteByte('\'') // distinguishes the string "1" from the number 1
		}
		b.WriteString(scalarText(kv.Value))
		b.WriteByte(',')
	}
	return b.String()
}

func elementStep(element any, key []string) Step {
	fields := element.(map[string]any)
	step := Step{InList: true, Keys: make([]KeyValue, len(key))}
	for i, name := range key {
		step.Keys[i] = KeyValue{Key: name, Value: fields[name]}
	}
	return step
}

func isScalar(v any) bool {
	switch v.(type) {
	case string, bool, int64, float64:
		return true
	}
	return false
}

// keyed compares lists whose elements have a merge key: first changed and removed elements, in the old order,
// then added ones, in the new order, then whether the others moved.
func (d *differ) keyed(old, new index, key []string) {
	for i, element := range old.list {
		at, stays := new.at[old.ids[i]]
		switch {
		case !stays:
			d.step(elementStep(element, key), element, func() { d.report(Removed, element, nil, 0) })
		case !same(element, new.list[at]):
			d.step(elementStep(element, key), new.list[at], func() { d.values(element, new.list[at]) })
		}
	}
	if slices.Equal(old.ids, new.ids) {
		return
	}
	for i, element := range new.list {
		if _, was := old.at[new.ids[i]]; !was {
			d.step(elementStep(element, key), element, func() { d.report(Added, nil, element, i) })
		}
	}
	if was, is := old.common(new), new.common(old); !slices.Equal(was, is) {
		d.report(Reordered, old.keyValues(was, key), new.keyValues(is, key), 0)
	}
}

// index is a keyed list with the identities of its elements, and their positions.
type index struct {
	list []any
	ids  []string
	at   map[string]int
}

// newIndex returns the index of a list; ok is false unless each element has the key, and no two have the same.
func newIndex(list []any, key []string) (x index, ok bool) {
	for i, element := range list {
		id, ok := identify(element, key)
		if _, twice := x.at[id]; !ok || twice {
			return index{}, false
		}
		if i == 0 {
			x = index{list: list, ids: make([]string, len(list)), at: make(map[string]int, len(list))}
		}
		x.ids[i], x.at[id] = id, i
	}
	return x, true
}

// common returns the identities that are also in other, in the order of x.
func (x index) common(other index) []string {
	var ids []string
	for _, id := range x.ids {
		if _, ok := other.at[id]; ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// keyValues returns the key of each element: its value if the key is one field, or else a list of its values.
func (x index) keyValues(ids, key []string) []any {
	result := make([]any, len(ids))
	for i, id := range ids {
		fields := x.list[x.at[id]].(map[string]any)
		if len(key) == 1 {
			result[i] = fields[key[0]]
			continue
		}
		values := make([]any, len(key))
		for k, name := range key {
			values[k] = fields[name]
		}
		result[i] = values
	}
	return result
}

// positional compares lists whose elements are only identified by their position. It skips what the lists have
// in common at both ends, so that inserting or removing a run of elements shows as just that. The position of
// an added element is that in the new list, any other's that in the old list.
func (d *differ) positional(before, after []any) {
	start := 0
	for start < min(len(before), len(after)) && equal(before[start], after[start]) {
		start++
	}
	endB, endA := len(before), len(after)
	for endB > start && endA > start && equal(before[endB-1], after[endA-1]) {
		endB, endA = endB-1, endA-1
	}
	both := min(endB, endA)
	for i := start; i < max(endB, endA); i++ {
		step := Step{InList: true, Index: i}
		switch {
		case i < both:
			d.step(step, after[i], func() { d.values(before[i], after[i]) })
		case i < endB:
			d.step(step, before[i], func() { d.report(Removed, before[i], nil, 0) })
		default:
			d.step(step, after[i], func() { d.report(Added, nil, after[i], i) })
		}
	}
}

// equal compares two trees. Unlike reflect.DeepEqual it is fast for JSON's types.
func equal(a, b any) bool {
	if same(a, b) {
		return true
	}
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && len(a) == len(b) && (a == nil) == (b == nil) && equalMaps(a, b)
	case []any:
		b, ok := b.([]any)
		return ok && (a == nil) == (b == nil) && slices.EqualFunc(a, b, equal)
	case string:
		b, ok := b.(string)
		return ok && a == b
	}
	return reflect.DeepEqual(a, b)
}

func equalMaps(a, b map[string]any) bool {
	for name, value := range a {
		other, ok := b[name]
		if !ok || !equal(value, other) {
			return false
		}
	}
	return true
}
