// Package redact removes the values of Secrets before objects are compared, printed or logged.
//
// It keeps a value's length and, between two states, whether it changed. It does not keep a hash, from which a
// short password could be guessed. It finds Secrets anywhere: as the object itself, as an item of a list,
// inside another object as a template, or as JSON or YAML in a string, such as kubectl's last-applied
// annotation.
package redact

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// secrets is the resource whose objects are Secrets, whatever their kind field says.
var secrets = schema.GroupResource{Resource: "secrets"}

// IsSecret reports whether the resource holds Secrets.
func IsSecret(resource schema.GroupResource) bool {
	return resource == secrets
}

// Object returns the object without the values of Secrets. It does not modify its argument; the result shares the
// unchanged parts with it.
func Object(resource schema.GroupResource, object map[string]any) map[string]any {
	_, clean := Pair(resource, nil, object)
	return clean
}

// Pair returns two states of one object without the values of Secrets. If a value differs between the two, it is
// marked as changed in the later one, so that the states still differ there.
func Pair(resource schema.GroupResource, before, after map[string]any) (cleanBefore, cleanAfter map[string]any) {
	cleanBefore, cleanAfter, _ = Next(resource, before, after, false)
	return cleanBefore, cleanAfter
}

// Next is Pair for a state whose state before may be known to have nothing to redact: then what both have in common is
// not searched again. nothing reports whether neither of them has anything to redact.
func Next(
	resource schema.GroupResource, before, after map[string]any, known bool,
) (cleanBefore, cleanAfter map[string]any, nothing bool) {
	found := findings{budget: parseBudget, parsed: map[string][]any{}, cleaned: map[textPair]any{}, skipCommon: known}
	earlier, later := state{findings: &found}, state{findings: &found, later: true}
	cleanBefore, was := earlier.object(before, after, IsSecret(resource))
	cleanAfter, is := later.object(after, before, IsSecret(resource))
	if !was && !is {
		return before, after, true
	}
	return earlier.annotations(cleanBefore, after), later.annotations(cleanAfter, before), false
}

// state redacts one of two states of an object. Its methods take a part of the object and the same part of the
// other state, and report whether there was anything to redact; if not, they return the part itself.
type state struct {
	later bool // it is the later state, in which changes are marked
	*findings
}

// findings is shared by both states of an object.
type findings struct {
	known  []string // the values of the Secrets that were found
	budget int      // how many more bytes of strings may be parsed and written
	// skipCommon is set if the earlier state is known to have nothing to redact.
	skipCommon bool
	// parsed and cleaned cache the results for strings, which can repeat.
	parsed  map[string][]any
	cleaned map[textPair]any
}

func (s state) object(m, other map[string]any, isSecret bool) (clean map[string]any, changed bool) {
	if m != nil && (isSecret || kindOf(m) == "Secret") {
		return s.secret(m, other), true
	}
	clean = m
	otherIsSecret := kindOf(other) == "Secret"
	for name, v := range m {
		c, different := s.field(name, v, other[name], otherIsSecret, kindOf(m) == "SecretList" && name == "items")
		if !different {
			continue
		}
		if !changed {
			clean, changed = maps.Clone(m), true
		}
		clean[name] = c
	}
	return clean, changed
}

func kindOf(m map[string]any) string {
	kind, _ := m["kind"].(string)
	return kind
}

// field redacts one field of a map. A field named stringData holds values of Secrets even without the kind, as in
// templates of custom resources; so does the data of an object that is a Secret in the other state.
func (s state) field(name string, v, other any, otherIsSecret, isSecret bool) (clean any, changed bool) {
	if otherIsSecret && (name == "data" || name == "stringData") {
		return s.entries(v, other, name == "data"), true
	}
	if m, ok := v.(map[string]any); ok && name == "stringData" && slices.ContainsFunc(slices.Collect(maps.Values(m)), isText) {
		return s.entries(v, other, false), true
	}
	return s.value(v, other, isSecret)
}

func isText(v any) bool {
	_, ok := v.(string)
	return ok
}

func (s state) value(v, other any, isSecret bool) (clean any, changed bool) {
	if s.skipCommon && !isSecret && isOne(v, other) {
		return v, false
	}
	switch v := v.(type) {
	case map[string]any:
		o, _ := other.(map[string]any)
		return s.object(v, o, isSecret)
	case []any:
		o, _ := other.([]any)
		return s.list(v, o, isSecret)
	case string:
		o, _ := other.(string)
		return s.text(v, o)
	}
	return v, false
}

// isOne reports whether two values are the same memory, or equal strings.
func isOne(v, other any) bool {
	switch v := v.(type) {
	case map[string]any:
		o, ok := other.(map[string]any)
		return ok && reflect.ValueOf(v).Pointer() == reflect.ValueOf(o).Pointer()
	case []any:
		o, ok := other.([]any)
		return ok && len(v) > 0 && len(v) == len(o) && &v[0] == &o[0]
	case string:
		return v == other
	}
	return false
}

func (s state) list(l, other []any, isSecret bool) (clean any, changed bool) {
	result := l
	for i, v := range l {
		c, different := s.value(v, counterpart(v, i, other), isSecret)
		if !different {
			continue
		}
		if !changed {
			result, changed = slices.Clone(l), true
		}
		result[i] = c
	}
	return result, changed
}

// counterpart finds the corresponding element of the other list, by namespace and name if v has them,
// otherwise by position.
func counterpart(v any, i int, other []any) any {
	if id := identity(v); id != "" {
		at := slices.IndexFunc(other, func(o any) bool { return identity(o) == id })
		if at < 0 {
			return nil
		}
		return other[at]
	}
	if i < len(other) {
		return other[i]
	}
	return nil
}

func identity(v any) string {
	m, _ := v.(map[string]any)
	metadata, _ := m["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if name == "" {
		return ""
	}
	namespace, _ := metadata["namespace"].(string)
	return namespace + "/" + name
}

// minSearchLength is the minimum length of values for which annotations are searched. Shorter ones
// would be found everywhere.
const minSearchLength = 6

// annotations redacts the annotations, of an object that contains a Secret, that repeat one of the Secret's values.
func (s state) annotations(clean, other map[string]any) map[string]any {
	known := slices.DeleteFunc(slices.Clone(s.known), func(value string) bool { return len(value) < minSearchLength })
	metadata, _ := clean["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if len(known) == 0 || len(annotations) == 0 {
		return clean
	}
	otherMetadata, _ := other["metadata"].(map[string]any)
	others, _ := otherMetadata["annotations"].(map[string]any)
	scrubbed := maps.Clone(annotations)
	for name, v := range annotations {
		if text, ok := v.(string); ok && containsAny(text, known) {
			scrubbed[name] = s.placeholder(v, others[name], false)
		}
	}
	metadata = maps.Clone(metadata)
	metadata["annotations"] = scrubbed
	clean = maps.Clone(clean)
	clean["metadata"] = metadata
	return clean
}

func containsAny(text string, known []string) bool {
	return slices.ContainsFunc(known, func(value string) bool { return strings.Contains(text, value) })
}
