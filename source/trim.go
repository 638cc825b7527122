package source

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/object"
)

// trimmer removes fields from decoded objects. The zero value removes nothing.
type trimmer struct {
	paths [][]string // each split into its names
}

func newTrimmer(trim object.Trim) (trimmer, error) {
	var t trimmer
	for _, path := range trim {
		p, err := wire.ParseTrim(path)
		if err != nil {
			return trimmer{}, fmt.Errorf("source: %w", err)
		}
		t.paths = append(t.paths, p.Names)
	}
	return t, nil
}

// apply returns o without the trimmed fields. It does not modify o: the parts on the path to a
// removed field are copied, everything else is shared with o.
func (t trimmer) apply(o object.Object) object.Object {
	for _, names := range t.paths {
		o = trimObject(o, names)
	}
	return o
}

func trimObject(o object.Object, names []string) object.Object {
	if u, ok := o.(*unstructured.Unstructured); ok {
		content, changed := withoutField(reflect.ValueOf(u.Object), names)
		if !changed {
			return o
		}
		return &unstructured.Unstructured{Object: content.Interface().(map[string]any)}
	}
	trimmed, changed := withoutField(reflect.ValueOf(o), names)
	if !changed {
		return o
	}
	return trimmed.Interface().(object.Object)
}

// withoutField returns v without the field at the path names, and whether v had that field.
func withoutField(v reflect.Value, names []string) (reflect.Value, bool) {
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return v, false
		}
		return withoutField(v.Elem(), names)
	case reflect.Pointer:
		if v.IsNil() {
			return v, false
		}
		elem, changed := withoutField(v.Elem(), names)
		if !changed {
			return v, false
		}
		p := reflect.New(elem.Type())
		p.Elem().Set(elem)
		return p, true
	case reflect.Struct:
		return structWithout(v, names)
	case reflect.Map:
		return mapWithout(v, names)
	case reflect.Slice:
		return sliceWithout(v, names)
	default:
		return v, false
	}
}

func structWithout(v reflect.Value, names []string) (reflect.Value, bool) {
	index := fieldByJSONName(v.Type(), names[0])
	if index == nil {
		return v, false
	}
	field := v.FieldByIndex(index)
	changed := !field.IsZero()
	if len(names) == 1 {
		field = reflect.Zero(field.Type())
	} else {
		field, changed = withoutField(field, names[1:])
	}
	if !changed {
		return v, false
	}
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	c.FieldByIndex(index).Set(field)
	return c, true
}

// fieldByJSONName finds the exported field with this JSON name, including those of inlined structs. The
// result is an index for FieldByIndex, or nil.
func fieldByJSONName(t reflect.Type, name string) []int {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.IsExported() && (tag == name || tag == "" && !f.Anonymous && f.Name == name):
			return []int{i}
		case f.Anonymous && tag == "" && f.Type.Kind() == reflect.Struct:
			if index := fieldByJSONName(f.Type, name); index != nil {
				return append([]int{i}, index...)
			}
		}
	}
	return nil
}

func mapWithout(v reflect.Value, names []string) (reflect.Value, bool) {
	if v.Type().Key().Kind() != reflect.String {
		return v, false
	}
	key := reflect.ValueOf(names[0]).Convert(v.Type().Key())
	entry := v.MapIndex(key)
	changed := entry.IsValid()
	if changed && len(names) > 1 {
		entry, changed = withoutField(entry, names[1:])
	} else {
		entry = reflect.Value{} // SetMapIndex deletes
	}
	if !changed {
		return v, false
	}
	c := reflect.MakeMapWithSize(v.Type(), v.Len())
	for entries := v.MapRange(); entries.Next(); {
		c.SetMapIndex(entries.Key(), entries.Value())
	}
	c.SetMapIndex(key, entry)
	return c, true
}

func sliceWithout(v reflect.Value, names []string) (reflect.Value, bool) {
	c, changed := v, false
	for i := range v.Len() {
		elem, elemChanged := withoutField(v.Index(i), names)
		if !elemChanged {
			continue
		}
		if !changed {
			c, changed = reflect.MakeSlice(v.Type(), v.Len(), v.Len()), true
			reflect.Copy(c, v)
		}
		c.Index(i).Set(elem)
	}
	return c, changed
}
