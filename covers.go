package tidings

import (
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// selection holds an informer's selectors. A nil selector matches everything.
type selection struct {
	labels labels.Selector
	fields fields.Selector
}

// covers reports whether the selectors match obj. A field selector on a path that the object does
// not have matches nothing, since only the server knows what the path refers to.
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

// coversMetadata is covers for an object of which only the metadata is known. known is false if a
// field selector needs more.
func (s selection) coversMetadata(o metav1.Object) (covers, known bool) {
	if s.labels != nil && !s.labels.Empty() && !s.labels.Matches(labels.Set(o.GetLabels())) {
		return false, true
	}
	known = true
	if s.fields == nil {
		return true, true
	}
	for _, r := range s.fields.Requirements() {
		value := ""
		switch r.Field {
		case "metadata.name":
			value = o.GetName()
		case "metadata.namespace":
			value = o.GetNamespace()
		default:
			known = false
			continue
		}
		if (value == r.Value) != (r.Operator != "!=") {
			return false, true
		}
	}
	return known, known
}

// fieldValue returns the value of the field at a path such as "spec.nodeName", in the form that
// field selectors compare. A field that a typed object leaves out has its zero or empty value; one
// that the type, or an unstructured object, does not have is not found.
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
		if v = fieldByJSONName(v, name); !v.IsValid() {
			return "", false
		}
	}
	return scalarText(v)
}

// fieldByJSONName returns the field with the given JSON name of a struct or a pointer to one, and
// the zero Value if there is none.
func fieldByJSONName(v reflect.Value, name string) reflect.Value {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return fieldByJSONName(reflect.Zero(v.Type().Elem()), name)
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
			if found := fieldByJSONName(v.Field(i), name); found.IsValid() {
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
