package story

import (
	"fmt"
	"strings"
)

type object = map[string]any

// at returns the value at a path of fields, or nil.
func at(v any, fields ...string) any {
	for _, name := range fields {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

func text(v any, fields ...string) string {
	s, _ := at(v, fields...).(string)
	return s
}

func number(v any, fields ...string) int64 {
	switch n := at(v, fields...).(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
}

func list(v any, fields ...string) []any {
	l, _ := at(v, fields...).([]any)
	return l
}

// named returns the element of a list with this value of a field.
func named(list []any, field, value string) any {
	for _, element := range list {
		if text(element, field) == value {
			return element
		}
	}
	return nil
}

func condition(o object, kind string) any {
	return named(list(o, "status", "conditions"), "type", kind)
}

// becomes reports whether a condition has this status now and had not before.
func becomes(before, after object, kind, status string) bool {
	return text(condition(after, kind), "status") == status && text(condition(before, kind), "status") != status
}

func deleting(o object) bool { return at(o, "metadata", "deletionTimestamp") != nil }

// owner returns the uid of an object's owner, "" if it has none.
func owner(o object) string { return text(ownerReference(o), "uid") }

// ownerReference returns the reference to the controller of an object, or to its first owner; nil if there is none.
func ownerReference(o object) any {
	all := list(o, "metadata", "ownerReferences")
	for _, r := range all {
		if at(r, "controller") == true {
			return r
		}
	}
	if len(all) > 0 {
		return all[0]
	}
	return nil
}

// images names what the containers of a pod template run.
func images(template any) string {
	var names []string
	for _, c := range list(template, "spec", "containers") {
		names = append(names, text(c, "image"))
	}
	return strings.Join(names, ", ")
}

// because returns a condition's message, or its reason if it has none.
func because(c any) string {
	if message := text(c, "message"); message != "" {
		return message
	}
	return text(c, "reason")
}

func plural(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", one, "s")
}
