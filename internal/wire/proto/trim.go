package proto

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tidings/tidings/internal/wire"
)

// trimTree holds the trims below one field. A nil tree trims nothing.
type trimTree struct {
	whole   bool
	fields  map[string]*trimTree
	entries map[string]bool // keys of a map
}

// at returns what is trimmed of the field name: the whole field, parts of it, or entries of a map.
func (t *trimTree) at(name string) (whole bool, below *trimTree, entries map[string]bool) {
	if t == nil || t.fields[name] == nil {
		return false, nil, nil
	}
	f := t.fields[name]
	if f.fields != nil {
		below = f
	}
	return f.whole, below, f.entries
}

func (t *trimTree) child(name string) *trimTree {
	if t.fields == nil {
		t.fields = map[string]*trimTree{}
	}
	if t.fields[name] == nil {
		t.fields[name] = &trimTree{}
	}
	return t.fields[name]
}

// parseTrims checks the trims against the type and builds their tree.
func parseTrims(typ reflect.Type, trims []string) (*trimTree, error) {
	if len(trims) == 0 {
		return nil, nil
	}
	root := &trimTree{}
	for _, trim := range trims {
		if err := addTrim(root, typ, trim); err != nil {
			return nil, err
		}
	}
	return root, nil
}

func addTrim(root *trimTree, typ reflect.Type, trim string) error {
	path, err := wire.ParseTrim(trim)
	if err != nil {
		return err
	}
	at, known, last := root, "", len(path.Names)-1
	for i, name := range path.Names {
		if path.Entry[i] {
			if i < last {
				return fmt.Errorf("trim %q: parts of a map's entry cannot be trimmed; name the whole entry", trim)
			}
			return at.addEntry(typ, trim, known, name)
		}
		next, ok := typeOfField(typ, name)
		if !ok {
			return fmt.Errorf("trim %q: there is no field %q%s", trim, name, nearest(typ, known, name))
		}
		typ, at, known = next, at.child(name), join(known, name)
	}
	at.whole = true
	return nil
}

// addEntry trims one entry of the map of type typ at path.
func (t *trimTree) addEntry(typ reflect.Type, trim, path, key string) error {
	if typ.Kind() != reflect.Map {
		return fmt.Errorf("trim %q: %s is not a map", trim, path)
	}
	if t.entries == nil {
		t.entries = map[string]bool{}
	}
	t.entries[key] = true
	return nil
}

// messageOf returns the innermost element type of pointers and lists.
func messageOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

// typeOfField returns the type of the field with this JSON name.
func typeOfField(t reflect.Type, name string) (reflect.Type, bool) {
	t = messageOf(t)
	if t.Kind() != reflect.Struct || checkMessage(t) != nil {
		return nil, false
	}
	for i := range t.NumField() {
		sf := t.Field(i)
		if num, err := fieldNumber(sf); err != nil || num == 0 {
			continue
		}
		found, inline := jsonName(sf)
		if inline {
			if ft, ok := typeOfField(sf.Type, name); ok {
				return ft, true
			}
		} else if found == name {
			return sf.Type, true
		}
	}
	return nil, false
}

// fieldNames lists the names that typeOfField knows.
func fieldNames(t reflect.Type) (names []string) {
	t = messageOf(t)
	if t.Kind() != reflect.Struct || checkMessage(t) != nil {
		return nil
	}
	for i := range t.NumField() {
		sf := t.Field(i)
		if num, err := fieldNumber(sf); err != nil || num == 0 {
			continue
		}
		if name, inline := jsonName(sf); inline {
			names = append(names, fieldNames(sf.Type)...)
		} else {
			names = append(names, name)
		}
	}
	return names
}

// nearest suggests the field that was probably meant.
func nearest(t reflect.Type, path, name string) string {
	names := fieldNames(t)
	if len(names) == 0 {
		return fmt.Sprintf(": %s has no fields that can be trimmed one by one", path)
	}
	best := slices.MinFunc(names, func(a, b string) int { return distance(a, name) - distance(b, name) })
	return fmt.Sprintf("; did you mean %q?", join(path, best))
}

// distance is the case-insensitive edit distance between a and b.
func distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
