package news

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
)

// Detail is an informative field of an object under a short name. Value is a string, a number, or a list of strings.
type Detail struct {
	Name  string
	Value any
}

// summarize returns the most informative fields of an object that was added or deleted: for an
// event its content, and for anything else the phase, the node, the images and so on, as far as
// they are present. The object has been redacted.
func summarize(r resources.Resource, object map[string]any) []Detail {
	var s summary
	if r.Kind == "Event" {
		s.event(object)
	} else {
		s.state(object)
		s.workload(object)
		s.data(object)
	}
	return s.details
}

// summary collects details.
type summary struct{ details []Detail }

// add adds a value, if there is one.
func (s *summary) add(name string, value any) {
	switch v := value.(type) {
	case nil:
		return
	case string:
		if v == "" {
			return
		}
	case []string:
		if len(v) == 0 {
			return
		}
	}
	s.details = append(s.details, Detail{name, value})
}

// event adds the content of an event, in either of its versions.
func (s *summary) event(object map[string]any) {
	about := first(at(object, "involvedObject"), at(object, "regarding"))
	s.add("type", at(object, "type"))
	s.add("reason", at(object, "reason"))
	if kind, name := at(about, "kind"), at(about, "name"); kind != nil && name != nil {
		s.add("object", fmt.Sprint(kind, "/", name))
	}
	s.add("message", first(at(object, "message"), at(object, "note")))
	if count := first(at(object, "count"), at(object, "series", "count")); count != int64(1) {
		s.add("count", count)
	}
}

// state adds the state of an object.
func (s *summary) state(object map[string]any) {
	s.add("phase", scalar(at(object, "status", "phase")))
	s.add("reason", scalar(at(object, "status", "reason")))
	s.add("ready", condition(object, "Ready"))
	s.add("type", scalar(first(at(object, "type"), at(object, "spec", "type"))))
	if desired := scalar(at(object, "spec", "replicas")); desired != nil {
		ready := scalar(at(object, "status", "readyReplicas"))
		s.add("replicas", fmt.Sprintf("%v/%v", first(ready, 0), desired))
	}
}

// workload adds what an object runs, and where.
func (s *summary) workload(object map[string]any) {
	spec := first(at(object, "spec", "jobTemplate", "spec", "template", "spec"), at(object, "spec", "template", "spec"), at(object, "spec"))
	var images []string
	for _, container := range list(at(spec, "containers")) {
		if image, ok := at(container, "image").(string); ok && !slices.Contains(images, image) {
			images = append(images, image)
		}
	}
	s.add("images", images)
	s.add("image", scalar(at(spec, "image")))
	s.add("node", scalar(at(object, "spec", "nodeName")))
	s.add("holder", scalar(at(object, "spec", "holderIdentity")))
	s.add("schedule", scalar(at(object, "spec", "schedule")))
	var restarts int64
	for _, status := range list(at(object, "status", "containerStatuses")) {
		n, _ := at(status, "restartCount").(int64)
		restarts += n
	}
	if restarts > 0 {
		s.add("restarts", restarts)
	}
}

// data adds the keys of ConfigMaps and Secrets.
func (s *summary) data(object map[string]any) {
	var keys []string
	for _, field := range []string{"data", "binaryData", "stringData"} {
		entries, _ := object[field].(map[string]any)
		keys = slices.AppendSeq(keys, maps.Keys(entries))
	}
	slices.Sort(keys)
	s.add("keys", keys)
}

// at returns the value at a path of fields below v, or nil if one of them is missing.
func at(v any, fields ...string) any {
	for _, name := range fields {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// first returns the first value that is present.
func first(values ...any) any {
	for _, v := range values {
		if v != nil {
			return v
		}
	}
	return nil
}

// scalar returns v if it is a string, a number or a boolean.
func scalar(v any) any {
	switch v.(type) {
	case string, bool, int64, float64:
		return v
	}
	return nil
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// condition returns the status of the condition of this type, or nil if there is none.
func condition(object map[string]any, kind string) any {
	for _, c := range list(at(object, "status", "conditions")) {
		if at(c, "type") == kind {
			return scalar(at(c, "status"))
		}
	}
	return nil
}

// text formats the detail as name=value, with quotes if the value has spaces, cut to the limit.
func (d Detail) text(limit int) string {
	value := fmt.Sprint(d.Value)
	if values, ok := d.Value.([]string); ok {
		value = strings.Join(values, ",")
	}
	short, cut := shorten(value, limit)
	if cut {
		short += "…"
	}
	if short == "" || strings.ContainsAny(short, " \t\n\"=") {
		short = string(encode(short))
	}
	return d.Name + "=" + short
}

// SummaryText returns the summary of an event in one line, with values of at most limit bytes; "" if it has none.
func SummaryText(e Event, limit int) string {
	texts := make([]string, len(e.Summary))
	for i, d := range e.Summary {
		texts[i] = cli.Printable(d.text(limit))
	}
	return strings.Join(texts, " ")
}
