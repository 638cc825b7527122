package blame

import (
	"encoding/json"
	"time"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/diff"
)

// Schema is the schema that the JSON names. Within a version, fields may be added, but none is removed or changes its
// meaning. docs/blame.md documents it.
const Schema = "tidings.blame/v1"

type document struct {
	Schema string  `json:"schema"`
	Fields []field `json:"fields"`
}

type field struct {
	Path   string    `json:"path"`
	Value  any       `json:"value"`
	Owners []manager `json:"owners,omitempty"`
	Set    *setting  `json:"set,omitempty"`
}

type manager struct {
	Name        string `json:"name"`
	Operation   string `json:"operation,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Time        string `json:"time,omitempty"`
}

type setting struct {
	Time    string   `json:"time"`
	Manager *manager `json:"manager,omitempty"`
	Old     any      `json:"old,omitempty"`
}

// JSON is Text for programs: the leaves of an object in one document.
func JSON(object map[string]any, sets map[string]Set) ([]byte, error) {
	all := document{Schema: Schema, Fields: []field{}}
	for _, leaf := range diff.Leaves(object) {
		if len(leaf.Path) == 0 {
			continue // an empty object
		}
		f := field{Path: leaf.Path.String(), Value: leaf.Value}
		for _, o := range leaf.Owners {
			f.Owners = append(f.Owners, manager{o.Name, o.Operation, o.Subresource, o.Time})
		}
		if set, known := setOf(leaf.Path, sets); known {
			f.Set = &setting{Time: set.Time.UTC().Format(time.RFC3339Nano), Old: set.Old}
			if by := set.By; by.Name != "" {
				f.Set.Manager = &manager{Name: by.Name, Operation: by.Operation, Subresource: by.Subresource}
			}
		}
		all.Fields = append(all.Fields, f)
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(cli.PrintableJSON(text), '\n'), nil
}
