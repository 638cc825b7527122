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
	// Field is the key of a map entry. It only applies to steps into a map.
	Field string
	// Keys selects the list element with these values. It is empty for other steps.
	Keys []KeyValue
	// Index is the position in a list if InList is set and Keys is empty.
	Index int
	// InList distinguishes a step into a list from a step into a map.
	InList bool
}

// isPosition reports whether the step leads to a list element that is only identified by its position.
func (s Step) isPosition() bool { return s.InList && len(s.Keys) == 0 }

// KeyValue is one field of a merge key with an element's value, which is a scalar.
type KeyValue struct {
	Key   string
	Value any
}

// String formats the path as documented: fields are joined by dots, and anything but a plain name is in
// brackets: map keys as they are ("[app.kubernetes.io/name]"), list elements by merge key ("[name=web]",
// "[port=80,protocol=TCP]") or position ("[#2]"). Ambiguous keys and values are quoted.
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

// scalarText formats a merge key's value. Numbers and booleans are not quoted, but strings that look like them
// are: the elements "1" and 1 are different.
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

// isPlain reports whether s can follow a dot: it consists of letters, digits, hyphens and underscores.
func isPlain(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
}

// isUnambiguous reports whether s can be in brackets without quotes.
func isUnambiguous(s string) bool {
	return s != "" && s[0] != '#' && !strings.ContainsAny(s, `[]=,"\`) && strconv.Quote(s) == `"`+s+`"`
}
