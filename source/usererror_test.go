package source_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/source"
)

// choosy is an object whose decoding may fail with a nil pointer, the methods of which panic.
type choosy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              choosySpec `json:"spec"`
}

type choosySpec struct{}

func (*choosySpec) UnmarshalJSON([]byte) error { return (*nilError)(nil) }

type nilError struct{ cause error }

func (e *nilError) Error() string { return e.cause.Error() }
func (e *nilError) Unwrap() error { return e.cause }

func (c *choosy) DeepCopyObject() runtime.Object {
	return &choosy{TypeMeta: c.TypeMeta, ObjectMeta: *c.ObjectMeta.DeepCopy()}
}

// TestErrorOfATypeThatPanics: the object is skipped like any other that cannot be decoded, and the
// rest of the list is not lost.
func TestErrorOfATypeThatPanics(t *testing.T) {
	answers := &scripted{contentType: "application/json", bodies: []string{`{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"9"},"items":[
		{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"x","resourceVersion":"5"},"spec":{}},
		{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"y","resourceVersion":"6"}}]}`}}
	client, err := source.NewClient(&rest.Config{Host: "http://server.test", Transport: answers})
	if err != nil {
		t.Fatal(err)
	}
	from, err := source.NewHTTP[*choosy](client, source.Scope{Resource: widgets, Kind: widgets.GroupVersion().WithKind("Widget")})
	if err != nil {
		t.Fatal(err)
	}
	var skipped []*source.ObjectError
	objects, _ := mustList(t, from, source.ListOptions[*choosy]{Skip: func(e *source.ObjectError) { skipped = append(skipped, e) }})
	if len(objects) != 1 || objects[0].Name != "y" || len(skipped) != 1 || skipped[0].Key.Name != "x" || !strings.Contains(skipped[0].Error(), "nilError") {
		t.Errorf("%d objects, without %v", len(objects), skipped)
	}
}
