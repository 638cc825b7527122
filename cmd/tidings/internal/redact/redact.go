// Package redact takes the values out of Secrets before anything is compared, printed or logged.
//
// What is left of a value is its length and, between two states, whether it changed. There is no hash: a hash of a
// short password can be tried out. A Secret is found wherever it is: as the object itself, as an item of a list,
// or inside another object that carries one as a template.
package redact

import (
	"encoding/base64"
	"fmt"
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

// Object returns the object without the values of Secrets. The input is only read; the result shares with it
// what needed no change.
func Object(resource schema.GroupResource, object map[string]any) map[string]any {
	_, clean := Pair(resource, nil, object)
	return clean
}

// Pair returns two states of one object without the values of Secrets. Where a value differs between the two, the
// later one is marked as changed, so that the states still differ there.
func Pair(resource schema.GroupResource, before, after map[string]any) (cleanBefore, cleanAfter map[string]any) {
	cleanBefore, _ = state{}.object(before, after, IsSecret(resource))
	cleanAfter, _ = state{later: true}.object(after, before, IsSecret(resource))
	return cleanBefore, cleanAfter
}

// state cleans one of two states of an object. Its methods take a part of the object and the same part of the
// other state, and report whether there was anything to clean; if not, the result is the part itself.
type state struct {
	later bool // it is the later state, which marks what changed
}

func (s state) object(m, other map[string]any, isSecret bool) (clean map[string]any, changed bool) {
	kind, _ := m["kind"].(string)
	if m != nil && (isSecret || kind == "Secret") {
		return s.secret(m, other), true
	}
	clean = m
	for name, v := range m {
		c, different := s.value(v, other[name], kind == "SecretList" && name == "items")
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

func (s state) value(v, other any, isSecret bool) (clean any, changed bool) {
	switch v := v.(type) {
	case map[string]any:
		o, _ := other.(map[string]any)
		return s.object(v, o, isSecret)
	case []any:
		o, _ := other.([]any)
		return s.list(v, o, isSecret)
	}
	return v, false
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

// counterpart finds the element of the other list that is the same object, by namespace and name if it has them,
// else by position.
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

// secret cleans one Secret: all values below data and stringData, and what else may repeat them.
func (s state) secret(m, other map[string]any) map[string]any {
	clean := maps.Clone(m)
	known := append(values(m), values(other)...)
	for name, v := range m {
		switch name {
		case "data", "stringData":
			clean[name] = s.entries(v, other[name], name == "data")
		case "metadata":
			clean[name] = s.metadata(v, other[name], known)
		case "apiVersion", "kind", "type":
		default:
			clean[name] = s.scrub(v, other[name], known)
		}
	}
	return clean
}

// metadata cleans what users write in metadata: the annotations and labels.
func (s state) metadata(v, other any, known []string) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	o, _ := other.(map[string]any)
	clean := maps.Clone(m)
	for _, name := range []string{"annotations", "labels"} {
		if v, ok := m[name]; ok {
			clean[name] = s.scrub(v, o[name], known)
		}
	}
	return clean
}

// entries replaces the values of data or stringData. Anything that is not the map it should be goes as a whole.
func (s state) entries(v, other any, encoded bool) any {
	m, ok := v.(map[string]any)
	if !ok {
		return s.placeholder(v, other, encoded)
	}
	o, _ := other.(map[string]any)
	clean := make(map[string]any, len(m))
	for name, v := range m {
		clean[name] = s.placeholder(v, o[name], encoded)
	}
	return clean
}

// placeholder stands for a value: "[redacted, 12 bytes]", and "[redacted, 12 bytes, changed]" in the later state
// if the earlier one had another value there.
func (s state) placeholder(v, other any, encoded bool) any {
	if v == nil {
		return nil
	}
	size := ""
	if text, ok := v.(string); ok {
		size = fmt.Sprintf(", %d bytes", length(text, encoded))
	}
	if s.later && other != nil && !reflect.DeepEqual(v, other) {
		return "[redacted" + size + ", changed]"
	}
	return "[redacted" + size + "]"
}

func length(text string, encoded bool) int {
	if !encoded {
		return len(text)
	}
	if raw, err := base64.StdEncoding.DecodeString(text); err == nil {
		return len(raw)
	}
	return len(text)
}

// values returns what must not show up anywhere else in the Secret: each value as it is and decoded.
func values(m map[string]any) []string {
	var found []string
	for _, field := range []string{"data", "stringData"} {
		data, _ := m[field].(map[string]any)
		for _, v := range data {
			text, _ := v.(string)
			found = append(found, text)
			if raw, err := base64.StdEncoding.DecodeString(text); err == nil && field == "data" {
				found = append(found, string(raw))
			}
		}
	}
	return slices.DeleteFunc(found, func(s string) bool { return s == "" })
}

// scrub cleans what surrounds the data of a Secret. A string goes if it holds one of the known values, or if it is
// JSON, because that is how kubectl and others keep a copy of the whole object in an annotation.
func (s state) scrub(v, other any, known []string) any {
	switch v := v.(type) {
	case string:
		if leaks(v, known) {
			return s.placeholder(v, other, false)
		}
	case map[string]any:
		o, _ := other.(map[string]any)
		clean := make(map[string]any, len(v))
		for name, value := range v {
			clean[name] = s.scrub(value, o[name], known)
		}
		return clean
	case []any:
		o, _ := other.([]any)
		clean := make([]any, len(v))
		for i, value := range v {
			clean[i] = s.scrub(value, counterpart(value, i, o), known)
		}
		return clean
	}
	return v
}

func leaks(text string, known []string) bool {
	if trimmed := strings.TrimSpace(text); strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[") {
		return true
	}
	return slices.ContainsFunc(known, func(value string) bool { return strings.Contains(text, value) })
}
