package rest

import (
	"reflect"

	"github.com/tidings/tidings/object"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// An object consists of its type, its metadata, its status, and the rest, which is its specification. These functions
// handle these parts for Go types and for unstructured objects.

// setStatus sets the status of o to that of from. The two share its content.
func setStatus(o, from object.Object) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		status, has := from.(*unstructured.Unstructured).Object["status"]
		if !has {
			delete(u.Object, "status")
			return
		}
		u.Object["status"] = runtime.DeepCopyJSONValue(status)
		return
	}
	if status := structOf(o).FieldByName("Status"); status.IsValid() {
		status.Set(structOf(from).FieldByName("Status"))
	}
}

// clearStatus clears the status of o.
func clearStatus(o object.Object) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		delete(u.Object, "status")
		return
	}
	if status := structOf(o).FieldByName("Status"); status.IsValid() {
		status.SetZero()
	}
}

// setSpecification copies everything but type, metadata and status from from to o. The two share the content.
func setSpecification(o, from object.Object) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		for key := range u.Object {
			if isSpecification(key) {
				delete(u.Object, key)
			}
		}
		for key, value := range from.(*unstructured.Unstructured).Object {
			if isSpecification(key) {
				u.Object[key] = runtime.DeepCopyJSONValue(value)
			}
		}
		return
	}
	to, source := structOf(o), structOf(from)
	for i := range to.NumField() {
		if isSpecificationField(to.Type().Field(i).Name) {
			to.Field(i).Set(source.Field(i))
		}
	}
}

// sameSpecification reports whether two objects are equal except for type, metadata and status.
func sameSpecification(a, b object.Object, hasStatus bool) bool {
	if u, ok := a.(*unstructured.Unstructured); ok {
		return sameContent(u.Object, b.(*unstructured.Unstructured).Object, hasStatus)
	}
	x, y := structOf(a), structOf(b)
	for i := range x.NumField() {
		if !isSpecificationField(x.Type().Field(i).Name) {
			continue
		}
		if !apiequality.Semantic.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			return false
		}
	}
	return true
}

// sameContent compares custom objects. Without a status subresource, a field named status is like any other.
func sameContent(a, b map[string]any, hasStatus bool) bool {
	counts := func(key string) bool { return isSpecification(key) || key == "status" && !hasStatus }
	for key, value := range a {
		if counts(key) && !reflect.DeepEqual(value, b[key]) {
			return false
		}
	}
	for key := range b {
		if _, has := a[key]; counts(key) && !has {
			return false
		}
	}
	return true
}

func isSpecification(key string) bool {
	return key != "apiVersion" && key != "kind" && key != "metadata" && key != "status"
}

func isSpecificationField(name string) bool {
	return name != "TypeMeta" && name != "ObjectMeta" && name != "Status"
}

func structOf(o object.Object) reflect.Value { return reflect.ValueOf(o).Elem() }
