package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// symbols replaces values that differ between runs, such as uids and versions, with names in order of first occurrence.
// Equal values get the same name, which shows which versions are equal. Requests can use the names.
type symbols struct {
	names  map[string]string // by value
	values map[string]string // by name
	counts map[string]int    // by prefix
}

func newSymbols(namespace string) *symbols {
	return &symbols{
		names:  map[string]string{namespace: "$ns"},
		values: map[string]string{"$ns": namespace},
		counts: map[string]int{},
	}
}

func (s *symbols) name(prefix, value string) string {
	if value == "" {
		return ""
	}
	key := prefix + value
	if name, ok := s.names[key]; ok {
		return name
	}
	s.counts[prefix]++
	name := fmt.Sprintf("$%s%d", prefix, s.counts[prefix])
	s.names[key], s.values[name] = name, value
	return name
}

var symbolPattern = regexp.MustCompile(`\$[a-z]+[0-9]*`)

// expand replaces names in a request with their values.
func (s *symbols) expand(text string) string {
	return symbolPattern.ReplaceAllStringFunc(text, func(name string) string {
		if value, ok := s.values[name]; ok {
			return value
		}
		return name
	})
}

var (
	longNumber  = regexp.MustCompile(`[0-9]{3,}`)
	timePattern = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z`)
	uidPattern  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
)

// text replaces known values in a text, and numbers that may be versions.
func (s *symbols) text(text string) string {
	text = strings.ReplaceAll(text, s.values["$ns"], "$ns")
	text = uidPattern.ReplaceAllStringFunc(text, func(uid string) string { return s.name("uid", uid) })
	text = timePattern.ReplaceAllLiteralString(text, "$time")
	return longNumber.ReplaceAllLiteralString(text, "$number")
}

// object replaces values that differ between runs in a decoded response.
func (s *symbols) object(content map[string]any, managed bool) {
	kind, _ := content["kind"].(string)
	metadata, _ := content["metadata"].(map[string]any)
	switch {
	case strings.HasSuffix(kind, "List"):
		s.listMetadata(metadata)
		for _, item := range asList(content["items"]) {
			if item, ok := item.(map[string]any); ok {
				s.object(item, managed)
			}
		}
	case kind == "Status":
		s.status(content)
	case metadata != nil:
		s.metadata(metadata, managed)
	}
	s.texts(content)
}

func (s *symbols) listMetadata(metadata map[string]any) {
	if v, ok := metadata["resourceVersion"].(string); ok && v != "" {
		metadata["resourceVersion"] = "$version"
		s.values["$list"] = v
	}
	if v, ok := metadata["continue"].(string); ok && v != "" {
		metadata["continue"] = "$continue"
		s.values["$continue"] = v
	}
}

func (s *symbols) status(content map[string]any) {
	if message, ok := content["message"].(string); ok {
		content["message"] = s.text(message)
	}
	metadata, _ := content["metadata"].(map[string]any)
	s.listMetadata(metadata)
	if details, ok := content["details"].(map[string]any); ok {
		if uid, ok := details["uid"].(string); ok {
			details["uid"] = s.name("uid", uid)
		}
		for _, cause := range asList(details["causes"]) {
			if cause, ok := cause.(map[string]any); ok {
				cause["message"] = s.text(fmt.Sprint(cause["message"]))
			}
		}
	}
}

func (s *symbols) metadata(m map[string]any, managed bool) {
	if v, ok := m["resourceVersion"].(string); ok {
		m["resourceVersion"] = s.name("v", v)
	}
	if v, ok := m["uid"].(string); ok {
		m["uid"] = s.name("uid", v)
	}
	for _, field := range []string{"creationTimestamp", "deletionTimestamp"} {
		if m[field] == nil {
			delete(m, field)
		} else {
			m[field] = "$time"
		}
	}
	if base, ok := m["generateName"].(string); ok && strings.HasPrefix(fmt.Sprint(m["name"]), base) {
		m["name"] = s.name("name", fmt.Sprint(m["name"]))
	}
	if !managed {
		delete(m, "managedFields")
	}
	for _, entry := range asList(m["managedFields"]) {
		if entry, ok := entry.(map[string]any); ok {
			entry["time"] = "$time"
		}
	}
}

// texts replaces the namespace and uids in all other strings.
func (s *symbols) texts(content map[string]any) {
	for _, key := range slices.Collect(maps.Keys(content)) {
		value := content[key]
		if name := uidPattern.ReplaceAllStringFunc(key, func(uid string) string { return s.name("uid", uid) }); name != key {
			delete(content, key)
			content[name], key = value, name
		}
		switch value := value.(type) {
		case string:
			text := strings.ReplaceAll(value, s.values["$ns"], "$ns")
			content[key] = uidPattern.ReplaceAllStringFunc(text, func(uid string) string { return s.name("uid", uid) })
		case map[string]any:
			s.texts(value)
		case []any:
			for _, item := range value {
				if item, ok := item.(map[string]any); ok {
					s.texts(item)
				}
			}
		}
	}
}

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}

// show reduces a response to the fields at the paths. In a list, it reduces the items too.
func show(content map[string]any, paths []string) map[string]any {
	kind, _ := content["kind"].(string)
	if len(paths) == 0 || kind == "Status" {
		return content
	}
	if items, ok := content["items"].([]any); ok && strings.HasSuffix(kind, "List") {
		shown := make([]any, len(items))
		for i, item := range items {
			if o, ok := item.(map[string]any); ok {
				shown[i] = show(o, paths)
			}
		}
		return map[string]any{"kind": content["kind"], "metadata": content["metadata"], "items": shown}
	}
	shown := map[string]any{}
	for _, path := range paths {
		copyPath(content, shown, strings.Split(path, "."))
	}
	return shown
}

func copyPath(from, to map[string]any, path []string) {
	value, has := from[path[0]]
	if !has {
		return
	}
	inner, isMap := value.(map[string]any)
	if len(path) == 1 || !isMap {
		to[path[0]] = value
		return
	}
	next, _ := to[path[0]].(map[string]any)
	if next == nil {
		next = map[string]any{}
		to[path[0]] = next
	}
	copyPath(inner, next, path[1:])
}

func pretty(content any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(content); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}
