package conformance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
)

// alike reports whether two responses are equal except for the order of managers. A server sorts
// managedFields by time, in whole seconds, so the order depends on whether two writes fall into the
// same second.
func alike(a, b string) bool { return a == b || sortManagers(a) == sortManagers(b) }

// jsonObject matches an object whose braces are not indented.
var jsonObject = regexp.MustCompile(`(?ms)^\{$.*?^\}$`)

// sortManagers sorts the managedFields of every object in a text.
func sortManagers(text string) string {
	return jsonObject.ReplaceAllStringFunc(text, func(object string) string {
		var content any
		if json.Unmarshal([]byte(object), &content) != nil {
			return object
		}
		sortManagersOf(content)
		return pretty(content)
	})
}

func sortManagersOf(v any) {
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			sortManagersOf(element)
		}
	case map[string]any:
		for name, member := range v {
			if entries, ok := member.([]any); ok && name == "managedFields" {
				slices.SortFunc(entries, func(a, b any) int { return cmp.Compare(managerOf(a), managerOf(b)) })
			}
			sortManagersOf(member)
		}
	}
}

func managerOf(entry any) string {
	m, _ := entry.(map[string]any)
	return fmt.Sprint(m["manager"], m["operation"], m["subresource"])
}
