// Package object defines the types that all packages of Tidings share: objects, their keys and resource
// versions, and changes to them (Delta).
//
// It only contains data types and starts no goroutines. Everything in it is safe for concurrent use as long
// as nobody writes to a shared value.
package object

import (
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is the type of the objects in the informer stack: a pointer to an API type, such as *corev1.Pod,
// *unstructured.Unstructured, *metav1.PartialObjectMetadata, or the type of a custom resource.
//
// An Object from a store is shared by all readers and is read-only. Call DeepCopyObject before modifying it.
type Object interface {
	metav1.Object
	runtime.Object
}

// Key names one object of one resource. Namespace is empty for cluster-scoped resources.
type Key struct {
	Namespace, Name string
}

// KeyOf returns the key of o.
func KeyOf(o metav1.Object) Key {
	return Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// String returns "namespace/name", or "name" for a cluster-scoped object, as client-go does.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// Clone returns an equal key with its own memory. The strings of a decoded object share memory with much of the rest of
// the object, so a key that outlives its object should be cloned.
func (k Key) Clone() Key {
	return Key{Namespace: strings.Clone(k.Namespace), Name: strings.Clone(k.Name)}
}

// Compare orders keys by namespace, then by name. It returns a negative number when k sorts before other,
// zero when they are equal, and a positive number otherwise.
func (k Key) Compare(other Key) int {
	if c := strings.Compare(k.Namespace, other.Namespace); c != 0 {
		return c
	}
	return strings.Compare(k.Name, other.Name)
}

// ParseKey parses the format of Key.String: "name" or "namespace/name".
func ParseKey(s string) (Key, error) {
	namespace, name, found := strings.Cut(s, "/")
	if !found {
		namespace, name = "", s
	}
	if name == "" || strings.Contains(name, "/") || (found && namespace == "") {
		return Key{}, fmt.Errorf("key %q: want name or namespace/name", s)
	}
	return Key{Namespace: namespace, Name: name}, nil
}

// IsNil reports whether o is nil, or holds a nil pointer.
func IsNil(o Object) bool {
	if o == nil {
		return true
	}
	v := reflect.ValueOf(o)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
