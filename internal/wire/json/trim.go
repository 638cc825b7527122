package json

import (
	"fmt"
	"strings"
)

// trimNode is the tree of trimmed paths. A nil node has nothing to trim below it.
type trimNode struct {
	drop  bool // the field itself is trimmed
	under map[string]*trimNode
	salt  uint64 // tells this node from all others; 0 is for fields without anything to trim
}

// needed are the fields that the stack cannot do without.
var needed = []string{
	"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion", "metadata.deletionTimestamp",
}

// newTrim compiles paths in the notation of object.Trim. Without paths the result is nil.
func newTrim(paths []string) (*trimNode, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	root := &trimNode{}
	for _, path := range paths {
		names, err := splitPath(path)
		if err != nil {
			return nil, err
		}
		if err := checkTrimmable(path, names); err != nil {
			return nil, err
		}
		root.insert(names)
	}
	root.number(1)
	return root, nil
}

// splitPath splits "metadata.annotations[a.b/c]" into its names.
func splitPath(path string) ([]string, error) {
	var names []string
	for rest := path; ; {
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return nil, fmt.Errorf("trim %q: a field name is missing; write names joined by dots, as in metadata.managedFields", path)
		}
		names, rest = append(names, rest[:end]), rest[end:]
		if strings.HasPrefix(rest, "[") {
			entry, behind, ok := strings.Cut(rest[1:], "]")
			if !ok || entry == "" || behind != "" && behind[0] != '.' {
				return nil, fmt.Errorf("trim %q: want one map entry in brackets, as in metadata.annotations[example.com/name]", path)
			}
			names, rest = append(names, entry), behind
		}
		if rest == "" {
			return names, nil
		}
		rest = rest[1:]
	}
}

func checkTrimmable(path string, names []string) error {
	dotted := strings.Join(names, ".")
	for _, field := range needed {
		if field == dotted || strings.HasPrefix(field, dotted+".") {
			return fmt.Errorf("trim %q: %s cannot be trimmed, the stack needs it; name the fields that can go one by one", path, field)
		}
	}
	return nil
}

func (n *trimNode) insert(names []string) {
	for _, name := range names {
		if n.under == nil {
			n.under = map[string]*trimNode{}
		}
		if n.under[name] == nil {
			n.under[name] = &trimNode{}
		}
		n = n.under[name]
	}
	n.drop = true
}

// number gives every node its salt, from next on, and returns the first one left.
func (n *trimNode) number(next uint64) uint64 {
	n.salt = next
	next++
	for _, m := range n.under {
		next = m.number(next)
	}
	return next
}

// member returns the node of the member called name, or nil.
func (n *trimNode) member(name string) *trimNode {
	if n == nil {
		return nil
	}
	return n.under[name]
}

// trims reports whether values here are dropped.
func (n *trimNode) trims() bool { return n != nil && n.drop }

// saltOf returns the salt for hashing values here.
func (n *trimNode) saltOf() uint64 {
	if n == nil {
		return 0
	}
	return n.salt
}
