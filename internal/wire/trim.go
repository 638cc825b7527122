package wire

import (
	"fmt"
	"strings"
)

// untrimmable are the fields that informers need.
var untrimmable = [...]string{
	"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion", "metadata.deletionTimestamp",
}

// TrimPath is a parsed path in the notation of object.Trim.
type TrimPath struct {
	// Names are the names of fields and map entries, outermost first.
	Names []string
	// Entry says for each name whether it was in brackets, which makes it a map entry.
	Entry []bool
}

// ParseTrim parses a path: "metadata.annotations[a.b/c]" has the names metadata, annotations and
// a.b/c. It returns an error if the path is malformed or names a field that informers need.
func ParseTrim(path string) (TrimPath, error) {
	var p TrimPath
	for rest := path; ; {
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return TrimPath{}, fmt.Errorf("trim %q: a field name is missing; write names joined by dots, as in metadata.managedFields", path)
		}
		p.add(rest[:end], false)
		rest = rest[end:]
		if strings.HasPrefix(rest, "[") {
			entry, behind, ok := strings.Cut(rest[1:], "]")
			if !ok || entry == "" || behind != "" && behind[0] != '.' {
				return TrimPath{}, fmt.Errorf("trim %q: want one map entry in brackets, as in metadata.annotations[example.com/name]", path)
			}
			p.add(entry, true)
			rest = behind
		}
		if rest == "" {
			return p, p.check(path)
		}
		rest = rest[1:]
	}
}

func (p *TrimPath) add(name string, entry bool) {
	p.Names, p.Entry = append(p.Names, name), append(p.Entry, entry)
}

func (p *TrimPath) check(path string) error {
	dotted := strings.Join(p.Names, ".")
	for _, field := range untrimmable {
		if field == dotted || strings.HasPrefix(field, dotted+".") {
			return fmt.Errorf("trim %q: %s cannot be trimmed, because the stack needs it; name the fields that can go one by one", path, field)
		}
	}
	return nil
}
