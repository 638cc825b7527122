package forms

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/object"
)

var (
	podKind      = corev1.SchemeGroupVersion.WithKind("Pod")
	widgetKind   = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	revisionKind = appsv1.SchemeGroupVersion.WithKind("ControllerRevision")
	revisions    = reflect.TypeFor[*appsv1.ControllerRevision]()
	pods         = reflect.TypeFor[*corev1.Pod]()
	nodes        = reflect.TypeFor[*corev1.Node]()
)

// TestConversion says what can be made from what.
func TestConversion(t *testing.T) {
	for _, tt := range []struct {
		name         string
		kind         schema.GroupVersionKind
		held, wanted reflect.Type
		ok, same     bool
	}{
		{"the same", podKind, pods, pods, true, true},
		{"the same metadata", podKind, metadata, metadata, true, true},
		{"metadata of a pod", podKind, pods, metadata, true, false},
		{"metadata of a custom resource", widgetKind, whole, metadata, true, false},
		{"unstructured pods", podKind, pods, whole, true, false},
		{"structured pods", podKind, whole, pods, true, false},
		{"pods from metadata", podKind, metadata, pods, false, false},
		{"unstructured pods from metadata", podKind, metadata, whole, false, false},
		{"nodes from unstructured pods", podKind, whole, nodes, false, false},
		{"unstructured objects from a type of another kind", podKind, nodes, whole, false, false},
		{"a type from an unstructured custom resource", widgetKind, whole, pods, false, false},
		{"structured objects with JSON of any content", revisionKind, whole, revisions, false, false},
		{"unstructured objects with JSON of any content", revisionKind, revisions, whole, true, false},
		{"no kind", schema.GroupVersionKind{}, pods, whole, false, false},
	} {
		convert, ok := Conversion(tt.kind, tt.held, tt.wanted)
		if ok != tt.ok || (convert == nil) != (tt.same || !tt.ok) {
			t.Errorf("%s: a function: %t, ok %t", tt.name, convert != nil, ok)
		}
	}
}

// convert makes an object of another form, which must be possible.
func convert(t *testing.T, kind schema.GroupVersionKind, o object.Object, wanted reflect.Type) object.Object {
	t.Helper()
	f, ok := Conversion(kind, reflect.TypeOf(o), wanted)
	if !ok {
		t.Fatalf("no %v from a %T", wanted, o)
	}
	made, err := f(o)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func fullPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: "b", UID: "u", ResourceVersion: "5", Generation: 2,
			Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "1"}, Finalizers: []string{"f"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Node", Name: "n", APIVersion: "v1", UID: "v"}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Apply"}},
		},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// TestMetadata keeps all metadata, drops what no encoding of it has, and has no kind.
func TestMetadata(t *testing.T) {
	full := fullPod()
	for _, from := range []object.Object{full, convert(t, podKind, full, whole)} {
		got := convert(t, podKind, from, metadata)
		if want := (&metav1.PartialObjectMetadata{ObjectMeta: full.ObjectMeta}); !cmp.Equal(got, object.Object(want)) {
			t.Errorf("from a %T: %s", from, cmp.Diff(object.Object(want), got))
		}
	}
	empty := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "b", Labels: map[string]string{}, Annotations: map[string]string{}, Finalizers: []string{},
		OwnerReferences: []metav1.OwnerReference{}, ManagedFields: []metav1.ManagedFieldsEntry{},
	}}
	want := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	if got := convert(t, podKind, empty, metadata); !reflect.DeepEqual(got, object.Object(want)) {
		t.Errorf("of empty lists and maps: %#v", got)
	}
	if empty.Labels == nil || empty.ManagedFields == nil {
		t.Error("the object that metadata were made from has changed")
	}
}

// TestThereAndBack: an unstructured object has its kind, and what is made of it again is the object that it came from.
func TestThereAndBack(t *testing.T) {
	full := fullPod()
	u := convert(t, podKind, full, whole).(*unstructured.Unstructured)
	image, _, err := unstructured.NestedSlice(u.Object, "spec", "containers")
	if err != nil || len(image) != 1 || u.GroupVersionKind() != podKind || u.GetName() != "b" {
		t.Errorf("%v, %v", u, err)
	}
	back := convert(t, podKind, u, pods)
	if !cmp.Equal(back, object.Object(full)) {
		t.Errorf("there and back: %s", cmp.Diff(object.Object(full), back))
	}
}

// TestObjectsThatDoNotFit their type are an error, not an object that lacks something.
func TestObjectsThatDoNotFit(t *testing.T) {
	f, _ := Conversion(podKind, whole, pods)
	made, err := f(&unstructured.Unstructured{Object: map[string]any{"spec": "text"}})
	if err == nil || made != nil {
		t.Errorf("%v, %v", made, err)
	}
}
