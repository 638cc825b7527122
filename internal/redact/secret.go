package redact

import (
	"encoding/base64"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// secret redacts one Secret: all values below data and stringData, at any depth, and other parts that may repeat them.
func (s state) secret(m, other map[string]any) map[string]any {
	clean := maps.Clone(m)
	known := secretValues(secretValues(nil, m), other)
	s.known = append(s.known, known...)
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

// metadata redacts the annotations and labels.
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

// entries replaces the values of data or stringData. If v is not a map, it is replaced as a whole.
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

// placeholder returns the replacement for a value: "[redacted, 12 bytes]", or "[redacted, 12 bytes,
// changed]" in the later state if the earlier one has another value there.
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

// redactedBefore matches what placeholder returns.
var redactedBefore = regexp.MustCompile(`^\[redacted, (\d+) bytes(?:, changed)?\]$`)

// length returns the length of a value. That of a value that has been redacted before, as in a recording, is the
// original's.
func length(text string, encoded bool) int {
	if encoded {
		if raw, err := base64.StdEncoding.DecodeString(text); err == nil {
			text = string(raw)
		}
	}
	if before := redactedBefore.FindStringSubmatch(text); before != nil {
		if n, err := strconv.Atoi(before[1]); err == nil {
			return n
		}
	}
	return len(text)
}

// secretValues appends to found the values that must not appear anywhere else in the Secret, both
// as they are and decoded.
func secretValues(found []string, m map[string]any) []string {
	for name, v := range m {
		found = valuesOf(found, name, v)
	}
	return found
}

func valuesOf(found []string, name string, v any) []string {
	switch v := v.(type) {
	case map[string]any:
		if name == "data" || name == "stringData" {
			return entryValues(found, v, name == "data")
		}
		return secretValues(found, v)
	case []any:
		for _, element := range v {
			found = valuesOf(found, "", element)
		}
	}
	return found
}

func entryValues(found []string, data map[string]any, encoded bool) []string {
	for _, v := range data {
		text, _ := v.(string)
		if text == "" {
			continue
		}
		found = append(found, text)
		if raw, err := base64.StdEncoding.DecodeString(text); err == nil && encoded && len(raw) > 0 {
			found = append(found, string(raw))
		}
	}
	return found
}

// scrub redacts the other parts of a Secret: nested data, as in templates, and every string that contains
// one of the known values, or may contain a copy of the whole object.
func (s state) scrub(v, other any, known []string) any {
	switch v := v.(type) {
	case string:
		if containsAny(v, known) || isDocument(v) || isCompressed(v) || looksLikeSecret(v) {
			return s.placeholder(v, other, false)
		}
		o, _ := other.(string)
		clean, _ := s.text(v, o)
		return clean
	case map[string]any:
		o, _ := other.(map[string]any)
		clean := make(map[string]any, len(v))
		for name, value := range v {
			switch _, isMap := value.(map[string]any); {
			case isMap && (name == "data" || name == "stringData"):
				clean[name] = s.entries(value, o[name], name == "data")
			case strings.Contains(name, "last-applied"):
				clean[name] = s.placeholder(value, o[name], false)
			default:
				clean[name] = s.scrub(value, o[name], known)
			}
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
