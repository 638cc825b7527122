package redact

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// parseBudget limits how many bytes of strings in one object are parsed and written. Strings can be
// nested, and YAML aliases repeat content without repeating its bytes, so a small malicious object
// could otherwise take forever.
const parseBudget = 8 << 20

// text redacts a string that contains objects as JSON or YAML. A string that seems to contain a
// Secret but cannot be parsed is replaced as a whole; so is one that is compressed, since its
// contents are unknown.
func (s state) text(text, other string) (clean any, changed bool) {
	if isCompressed(text) {
		return s.placeholder(text, other, false), true
	}
	if !mayHoldSecret(text) {
		return text, false
	}
	id := textPair{text, other, s.later}
	clean, known := s.cleaned[id]
	if !known {
		clean = s.clean(text, other)
		s.cleaned[id] = clean
	}
	return clean, clean != text
}

// textPair is a string in one of the states and its counterpart in the other.
type textPair struct {
	text, other string
	later       bool
}

func (s state) clean(text, other string) any {
	documents := s.parse(text)
	if documents == nil {
		if looksLikeSecret(text) {
			return s.placeholder(text, other, false)
		}
		return text
	}
	cleaned, changed := s.list(documents, s.parse(other), false)
	if !changed || reflect.DeepEqual(cleaned, any(documents)) {
		return text // a reference to a Secret has nothing to clean
	}
	written, err := format(cleaned.([]any), isDocument(text))
	if s.budget -= len(written); err != nil || s.budget < 0 {
		return s.placeholder(text, other, false)
	}
	return written
}

// parse parses the objects in a string: one JSON document, or any number of YAML documents. It
// returns nil for other text.
func (s state) parse(text string) []any {
	documents, known := s.parsed[text]
	if known {
		return documents
	}
	if s.budget -= len(text); s.budget >= 0 {
		var err error
		if documents, err = readDocuments(text); err != nil || !slices.ContainsFunc(documents, isTree) {
			documents = nil
		}
	}
	s.parsed[text] = documents
	return documents
}

func isTree(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// mayHoldSecret is a cheap check whether a string is worth parsing. JSON can escape any letter.
func mayHoldSecret(text string) bool {
	return strings.Contains(text, "Secret") || strings.Contains(text, "stringData") || isDocument(text) && strings.Contains(text, `\`)
}

// isDocument reports whether a string looks like JSON: an object or a list.
func isDocument(text string) bool {
	trimmed := strings.TrimSpace(text)
	return strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[")
}

// isCompressed reports whether a string is base64 of gzip or zip. Some tools keep a copy of the
// applied object in this form.
func isCompressed(text string) bool {
	return strings.HasPrefix(text, "H4sI") || strings.HasPrefix(text, "UEsDB")
}

var secretKind = regexp.MustCompile(`(?m)["']?kind["']?\s*:\s*["']?Secret|["']?stringData["']?\s*:`)

// looksLikeSecret reports whether a string seems to contain a Secret, however malformed or templated the rest is.
func looksLikeSecret(text string) bool {
	return secretKind.MatchString(text) || secretKind.MatchString(strings.ReplaceAll(text, `\`, ""))
}

var documentEnd = regexp.MustCompile(`(?m)^---(?:[ \t].*)?\r?$`)

// readDocuments parses one JSON document, or any number of YAML documents.
func readDocuments(text string) (documents []any, err error) {
	if isDocument(text) {
		var v any
		if utiljson.Unmarshal([]byte(text), &v) == nil {
			return []any{v}, nil
		}
	}
	for _, part := range documentEnd.Split(text, -1) {
		var v any
		if err := yaml.Unmarshal([]byte(part), &v); err != nil {
			return nil, err
		}
		documents = append(documents, v)
	}
	return documents, nil
}

// format is the inverse of readDocuments.
func format(documents []any, asJSON bool) (string, error) {
	var b bytes.Buffer
	for i, v := range documents {
		if asJSON && len(documents) == 1 {
			encoder := json.NewEncoder(&b)
			encoder.SetEscapeHTML(false)
			err := encoder.Encode(v)
			return strings.TrimSuffix(b.String(), "\n"), err
		}
		if i > 0 {
			b.WriteString("---\n")
		}
		text, err := yaml.Marshal(v)
		if err != nil {
			return "", err
		}
		b.Write(text)
	}
	return b.String(), nil
}
