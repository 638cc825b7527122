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
// are made from each other for the kinds and types of k8s.io/api only. An empty kind is none of these.
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
	case held == whole && wanted == builtin:
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

// toMetadata makes metadata as the server does. It has no kind, as none of the objects of a list has.
func toMetadata(obj object.Object) (object.Object, error) {
	var of metav1.Object = obj
	if structured, ok := obj.(metav1.ObjectMetaAccessor); ok {
		of = structured.GetObjectMeta()
	}
	m := meta.AsPartialObjectMetadata(of)
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
