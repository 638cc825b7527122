// Package forms makes objects of one form from objects of another: structured, unstructured, and metadata alone. What
// it makes is what the server would have sent in that form.
package forms

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tidings/tidings/object"
)

// Conversion returns the function that makes objects of the wanted type from those of a kind that are held; nil if they
// are the same. ok is false if it is impossible: nothing is made from metadata, and structured and unstructured objects
// are made from each other for the kinds and types of k8s.io/api only, and no structured ones with JSON of any content,
// such as ControllerRevision.data: an unstructured object has lost the order of its fields, and programs compare the
// bytes. An empty kind is none of these. What is made shares nothing with its origin that can be written to.
func Conversion(kind schema.GroupVersionKind, held, wanted reflect.Type) (
	convert func(object.Object) (object.Object, error), ok bool,
) {
	builtin := builtinType(kind)
	switch {
	case held == wanted:
		return nil, true
	case held == metadata:
		return nil, false
	case wanted == metadata:
		return toMetadata, true
	case held == builtin && wanted == whole:
		return toUnstructured(kind), true
	case held == whole && wanted == builtin && !hasRawJSON(builtin):
		return toStructured(builtin), true
	default: // a Go type lacks fields of a custom resource, or an object does not fit it
		return nil, false
	}
}

// whole and metadata are the types of unstructured objects, and of metadata alone.
var (
	whole    = reflect.TypeFor[*unstructured.Unstructured]()
	metadata = reflect.TypeFor[*metav1.PartialObjectMetadata]()
)

// builtinType returns the type that k8s.io/api has for a kind; nil if there is none.
func builtinType(kind schema.GroupVersionKind) reflect.Type {
	obj, err := scheme.Scheme.New(kind)
	if err != nil {
		return nil
	}
	return reflect.TypeOf(obj)
}

// hasRawJSON reports whether objects of a type have fields with JSON that is kept as it came. Those of metadata, managed
// fields, do not count: the server writes them in an order of its own.
func hasRawJSON(typ reflect.Type) bool { return findRawJSON(typ, map[reflect.Type]bool{}) }

func findRawJSON(typ reflect.Type, visited map[reflect.Type]bool) bool {
	if typ == reflect.TypeFor[runtime.RawExtension]() {
		return true
	}
	if visited[typ] {
		return false
	}
	visited[typ] = true
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return findRawJSON(typ.Elem(), visited)
	case reflect.Struct:
		for field := range typ.Fields() {
			if findRawJSON(field.Type, visited) {
				return true
			}
		}
	}
	return false
}

// toMetadata makes metadata as the server does. It has no kind, as none of the objects of a list has.
func toMetadata(obj object.Object) (object.Object, error) {
	var of metav1.Object = obj
	if structured, ok := obj.(metav1.ObjectMetaAccessor); ok {
		of = structured.GetObjectMeta()
	}
	m := meta.AsPartialObjectMetadata(of).DeepCopy() // a write to it must not change the object
	dropEmpty(&m.ObjectMeta)
	return m, nil
}

// dropEmpty drops what no encoding of metadata has.
func dropEmpty(m *metav1.ObjectMeta) {
	if len(m.Labels) == 0 {
		m.Labels = nil
	}
	if len(m.Annotations) == 0 {
		m.Annotations = nil
	}
	if len(m.OwnerReferences) == 0 {
		m.OwnerReferences = nil
	}
	if len(m.Finalizers) == 0 {
		m.Finalizers = nil
	}
	if len(m.ManagedFields) == 0 {
		m.ManagedFields = nil
	}
}

// toUnstructured returns a function that makes unstructured objects from those of a built-in type.
func toUnstructured(kind schema.GroupVersionKind) func(object.Object) (object.Object, error) {
	return func(obj object.Object) (object.Object, error) {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return nil, err
		}
		u := &unstructured.Unstructured{Object: content}
		u.SetGroupVersionKind(kind)
		return u, nil
	}
}

// toStructured returns a function that makes objects of a built-in type, a pointer, from unstructured ones. Their kind
// is empty, as in all structured objects.
func toStructured(typ reflect.Type) func(object.Object) (object.Object, error) {
	return func(obj object.Object) (object.Object, error) {
		made := reflect.New(typ.Elem()).Interface().(object.Object)
		content := obj.(*unstructured.Unstructured).Object
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, made); err != nil {
			return nil, err
		}
		made.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		return made, nil
	}
}
