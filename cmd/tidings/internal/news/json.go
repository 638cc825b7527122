package news

import (
	"encoding/json"
	"time"

	"github.com/tidings/tidings/cmd/tidings/internal/diff"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
)

// Schema is the schema that every JSON line names. Within a version, fields may be added, but none is removed or
// changes its meaning. docs/tail.md documents it.
const Schema = "tidings.tail/v1"

// JSON formats events and status as JSON, one object per line. Its methods may be called from several goroutines.
type JSON struct {
	Limits Limits
}

// header is the beginning of all lines.
type header struct {
	Schema string `json:"schema"`
	Kind   string `json:"kind"`
	Time   string `json:"time"`
}

func newHeader(kind string, now time.Time) header {
	return header{Schema: Schema, Kind: kind, Time: now.UTC().Format("2006-01-02T15:04:05.000000Z")}
}

// resourceFields identify a resource.
type resourceFields struct {
	Group      string `json:"group"`
	Version    string `json:"version"`
	Resource   string `json:"resource"`
	ObjectKind string `json:"objectKind"`
}

type eventLine struct {
	header
	Type Type `json:"type"`
	resourceFields
	Namespace          string         `json:"namespace,omitempty"`
	Name               string         `json:"name"`
	UID                string         `json:"uid,omitempty"`
	ResourceVersion    string         `json:"resourceVersion,omitempty"`
	OldResourceVersion string         `json:"oldResourceVersion,omitempty"`
	Generation         int64          `json:"generation,omitempty"`
	Initial            bool           `json:"initial,omitempty"`
	FinalStateUnknown  bool           `json:"finalStateUnknown,omitempty"`
	Manager            *managerLine   `json:"manager,omitempty"`
	Changes            []changeLine   `json:"changes,omitempty"`
	OmittedChanges     int            `json:"omittedChanges,omitempty"`
	Hidden             []string       `json:"hidden,omitempty"`
	Summary            map[string]any `json:"summary,omitempty"`
	Object             map[string]any `json:"object,omitempty"`
}

type changeLine struct {
	Path         string          `json:"path"`
	Op           diff.Op         `json:"op"`
	Old          json.RawMessage `json:"old,omitempty"`
	New          json.RawMessage `json:"new,omitempty"`
	OldLength    int             `json:"oldLength,omitempty"`
	NewLength    int             `json:"newLength,omitempty"`
	Parts        []partLine      `json:"parts,omitempty"`
	OmittedParts int             `json:"omittedParts,omitempty"`
	Manager      *managerLine    `json:"manager,omitempty"`
}

type partLine struct {
	OldLine int    `json:"oldLine,omitempty"`
	NewLine int    `json:"newLine,omitempty"`
	Offset  int    `json:"offset,omitempty"`
	OldText string `json:"oldText"`
	NewText string `json:"newText"`
}

type managerLine struct {
	Name        string `json:"name"`
	Operation   string `json:"operation,omitempty"`
	Subresource string `json:"subresource,omitempty"`
}

type statusLine struct {
	header
	Status StatusKind `json:"status"`
	*resourceFields
	Namespace       string `json:"namespace,omitempty"`
	Objects         *int   `json:"objects,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Message         string `json:"message"`
}

// Event returns a line of kind "change".
func (j JSON) Event(e Event) []byte {
	line := eventLine{
		header: newHeader("change", e.Time), Type: e.Type, resourceFields: fieldsOf(e.Resource),
		Namespace: e.Namespace, Name: e.Name, UID: e.UID,
		ResourceVersion: e.ResourceVersion, OldResourceVersion: e.OldResourceVersion, Generation: e.Generation,
		Initial: e.Initial, FinalStateUnknown: e.FinalStateUnknown, Manager: newManagerLine(e.By), Hidden: e.Hidden,
		Object: e.Object,
	}
	for _, d := range e.Summary {
		if line.Summary == nil {
			line.Summary = map[string]any{}
		}
		line.Summary[d.Name] = d.Value
	}
	for i, change := range e.Changes {
		if j.Limits.Changes > 0 && i == j.Limits.Changes {
			line.OmittedChanges = len(e.Changes) - i
			break
		}
		line.Changes = append(line.Changes, j.change(change))
	}
	return append(encode(line), '\n')
}

func fieldsOf(r resources.Resource) resourceFields {
	return resourceFields{Group: r.Group, Version: r.Version, Resource: r.Resource, ObjectKind: r.Kind}
}

func newManagerLine(m diff.Manager) *managerLine {
	if m.Name == "" {
		return nil
	}
	return &managerLine{Name: m.Name, Operation: m.Operation, Subresource: m.Subresource}
}

func (j JSON) change(c diff.Change) changeLine {
	line := changeLine{Path: c.Path.String(), Op: c.Op, Manager: newManagerLine(c.By)}
	if c.Op != diff.Added {
		line.Old, line.OldLength = j.value(c.Old)
	}
	if c.Op != diff.Removed {
		line.New, line.NewLength = j.value(c.New)
	}
	for i, p := range partsOf(c, j.Limits.Value) {
		if j.Limits.Changes > 0 && i >= j.Limits.Changes {
			line.OmittedParts++
			continue
		}
		line.Parts = append(line.Parts, partLine{p.oldLine, p.newLine, p.offset, p.old, p.new})
	}
	return line
}

// value returns the value or, if it is longer than the limit, a string with the beginning of its JSON text, and
// the length of the whole text.
func (j JSON) value(v any) (value json.RawMessage, length int) {
	text := encode(v)
	short, cut := shorten(string(text), j.Limits.Value)
	if !cut {
		return text, 0
	}
	return encode(short), len(text)
}

// Status returns a line of kind "status".
func (j JSON) Status(s Status) []byte {
	line := statusLine{
		header: newHeader("status", s.Time), Status: s.Kind, Namespace: s.Namespace, ResourceVersion: s.ResourceVersion, Message: s.Message,
	}
	if s.Resource.Resource != "" {
		line.resourceFields, line.Objects = new(fieldsOf(s.Resource)), &s.Objects
	}
	return append(encode(line), '\n')
}
