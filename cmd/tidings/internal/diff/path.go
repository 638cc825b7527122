package diff

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Path leads from the root of an object to one of its values.
type Path []Step

// Step is one step of a Path: into a map by field, or into a list by the element's merge key or its position.
type Step struct {
	// Field is the map entry to take. It counts only when the step is not into a list.
	Field string
	// Keys picks the list element that has these values. It is empty for other steps.
	Keys []KeyValue
	// Index is the list position to take when InList is set and Keys is empty.
	Index int
	// InList tells a step into a list from a step into a map.
	InList bool
}

// isPosition reports whether the step leads to a list element that is known by its position alone.
func (s Step) isPosition() bool { return s.InList && len(s.Keys) == 0 }

// KeyValue is one field of a merge key with the scalar that an element has there.
type KeyValue struct {
	Key   string
	Value any
}

// String writes the path as it is documented: fields are joined by dots, and what is not a plain name stands in
// brackets: map entries as they are ("[app.kubernetes.io/name]"), list elements by merge key ("[name=web]",
// "[port=80,protocol=TCP]") or position ("[#2]"). Entries and values that would be ambiguous are quoted.
func (p Path) String() string {
	var b strings.Builder
	for i, step := range p {
		step.write(&b, i == 0)
	}
	return b.String()
}

func (s Step) write(b *strings.Builder, first bool) {
	switch {
	case len(s.Keys) > 0:
		b.WriteByte('[')
		for i, kv := range s.Keys {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(quoteUnless(kv.Key, isPlain))
			b.WriteByte('=')
			b.WriteString(scalarText(kv.Value))
		}
		b.WriteByte(']')
	case s.InList:
		fmt.Fprintf(b, "[#%d]", s.Index)
	case isPlain(s.Field):
		if !first {
			b.WriteByte('.')
		}
		b.WriteString(s.Field)
	default:
		b.WriteString("[" + quoteUnless(s.Field, isUnambiguous) + "]")
	}
}

// scalarText writes a merge key's value. Numbers and booleans stand bare, so a string that reads like one of
// them is quoted: elements named "1" and 1 are two.
func scalarText(v any) string {
	if s, ok := v.(string); ok {
		return quoteUnless(s, func(s string) bool { return isUnambiguous(s) && !json.Valid([]byte(s)) })
	}
	text, err := json.Marshal(v)
	if err != nil {
		return strconv.Quote(fmt.Sprint(v))
	}
	return string(text)
}

func quoteUnless(s string, fine func(string) bool) string {
	if fine(s) {
		return s
	}
	return strconv.Quote(s)
}

// isPlain reports whether s can follow a dot: it is a name of letters, digits, hyphens and underscores.
func isPlain(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
}

// isUnambiguous reports whether s can stand in brackets as it is.
func isUnambiguous(s string) bool {
	return s != "" && s[0] != '#' && !strings.ContainsAny(s, `[]=,"\`) && strconv.Quote(s) == `"`+s+`"`
}
