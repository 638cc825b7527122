package tidings

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// selection is what an informer's selectors let through. Nil selectors let everything through.
type selection struct {
	labels labels.Selector
	fields fields.Selector
}

// covers reports whether the selectors let obj through. A field selector that names a field which the object does not have under
// that path lets nothing through: what the server makes of it cannot be told here.
func (s selection) covers(obj Object) bool {
	if s.labels != nil && !s.labels.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	if s.fields == nil {
		return true
	}
	for _, r := range s.fields.Requirements() {
		value, ok := fieldValue(obj, r.Field)
		if !ok || (value == r.Value) != (r.Operator != "!=") {
			return false
		}
	}
	return true
}

// fieldValue returns the value of the field at a path such as "spec.nodeName", as field selectors compare it. A field that is left
// out of the object has the empty value; one that the type does not have is not found.
func fieldValue(obj Object, path string) (string, bool) {
	names := strings.Split(path, ".")
	if u, ok := obj.(*unstructured.Unstructured); ok {
		value, found, err := unstructured.NestedFieldNoCopy(u.Object, names...)
		if err != nil || !found {
			return "", false
		}
		return fmt.Sprint(value), true
	}
	v := reflect.ValueOf(obj)
	for _, name := range names {
		if v = field(v, name); !v.IsValid() {
			return "", false
		}
	}
	return scalarText(v)
}

// field returns the field of a struct, or of what a pointer refers to, by its name in JSON; the zero Value if there is none.
func field(v reflect.Value, name string) reflect.Value {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return field(reflect.Zero(v.Type().Elem()), name)
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	for i, t := 0, v.Type(); i < t.NumField(); i++ {
		tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		switch {
		case tag == name:
			return v.Field(i)
		case t.Field(i).Anonymous && tag == "":
			if found := field(v.Field(i), name); found.IsValid() {
				return found
			}
		}
	}
	return reflect.Value{}
}

func scalarText(v reflect.Value) (string, bool) {
	switch v.Kind() {
	case reflect.String:
		return v.String(), true
	case reflect.Bool:
		return fmt.Sprint(v.Bool()), true
	case reflect.Int, reflect.Int32, reflect.Int64:
		return fmt.Sprint(v.Int()), true
	case reflect.Pointer:
		if v.IsNil() {
			return "", true
		}
		return scalarText(v.Elem())
	default:
		return "", false
	}
}
