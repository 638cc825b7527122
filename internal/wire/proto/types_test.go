package proto

import (
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFieldNumbers(t *testing.T) {
	for tag, want := range map[string]int32{
		`protobuf:"bytes,1"`: 1, `protobuf:"bytes,1,opt"`: 1, `protobuf:"bytes,1000,opt"`: 1000, `protobuf:"-"`: 0, `json:"-"`: 0,
		`protobuf:"bytes,0,opt"`: -1, `protobuf:"bytes,1001,opt"`: -1, `protobuf:"bytes,x"`: -1, `protobuf:"bytes"`: -1, ``: -1,
	} {
		n, err := fieldNumber(reflect.StructField{Name: "F", Type: reflect.TypeFor[string](), Tag: reflect.StructTag(tag)})
		if (err != nil) != (want < 0) || err == nil && n != want {
			t.Errorf("%s: %d, %v", tag, n, err)
		}
	}
}

// methodical is a string with a method that would make it a message if it were a struct.
type methodical string

func (*methodical) Unmarshal([]byte) error { return fmt.Errorf("not called") }

// TestMessages: messages are named structs and slices with an Unmarshal method.
func TestMessages(t *testing.T) {
	for typ, want := range map[reflect.Type]bool{
		reflect.TypeFor[metav1.Time](): true, reflect.TypeFor[metav1.Verbs](): true, reflect.TypeFor[header](): false, reflect.TypeFor[[]string](): false,
		reflect.TypeFor[methodical](): false, reflect.TypeFor[struct{ metav1.Status }](): false, reflect.TypeFor[*metav1.Status](): false, reflect.TypeFor[*unfit](): false,
	} {
		if got := isMessage(typ); got != want {
			t.Errorf("%v is a message: %t", typ, got)
		}
	}
	if form, elem, err := formOf(reflect.TypeFor[methodical]()); form != single || elem.Kind() != reflect.String || kindOf(elem) != stringKind || err != nil {
		t.Errorf("a string is of the form %d, %v", form, err)
	}
}

// TestForms distinguishes field types that can be compiled from others.
func TestForms(t *testing.T) {
	for typ, want := range map[reflect.Type]bool{
		reflect.TypeFor[string](): true, reflect.TypeFor[[]byte](): true, reflect.TypeFor[uint32](): true, reflect.TypeFor[int64](): true, reflect.TypeFor[*bool](): true,
		reflect.TypeFor[[]int32](): true, reflect.TypeFor[map[string]string](): true, reflect.TypeFor[map[corev1.ResourceName][]byte](): true, reflect.TypeFor[[]metav1.Time](): true,
		reflect.TypeFor[map[string]metav1.Time](): true, reflect.TypeFor[*[]metav1.Time](): false, reflect.TypeFor[map[string]int32](): false, reflect.TypeFor[map[int]string](): false,
		reflect.TypeFor[[][]byte](): false, reflect.TypeFor[*[]byte](): false, reflect.TypeFor[[]*metav1.Time](): false, reflect.TypeFor[float64](): false, reflect.TypeFor[int](): false,
		reflect.TypeFor[map[string]map[string]string](): false, reflect.TypeFor[map[string][]string](): false, reflect.TypeFor[[2]string](): false, reflect.TypeFor[**string](): false,
		reflect.TypeFor[map[string]*string](): false, reflect.TypeFor[[]float64](): false, reflect.TypeFor[map[string]bool](): false, reflect.TypeFor[any](): false,
	} {
		if _, _, err := formOf(typ); (err == nil) != want {
			t.Errorf("%v: %v", typ, err)
		}
	}
}

func TestNamesOfFields(t *testing.T) {
	for _, tt := range []struct {
		field     reflect.StructField
		name      string
		anonymous bool
	}{
		{reflect.StructField{Name: "Name", Tag: `json:"called,omitempty"`}, "called", false},
		{reflect.StructField{Name: "Name", Tag: `json:",omitempty"`}, "name", false},
		{reflect.StructField{Name: "Raw", Tag: `json:"-"`}, "raw", false},
		{reflect.StructField{Name: "Raw"}, "raw", false},
		{reflect.StructField{Name: "Inner", Tag: `json:",inline"`}, "", true},
		{reflect.StructField{Name: "Inner", Anonymous: true}, "", true},
		{reflect.StructField{Name: "Inner", Tag: `json:"inner"`, Anonymous: true}, "inner", false},
	} {
		if name, inline := jsonName(tt.field); name != tt.name || inline != tt.anonymous {
			t.Errorf("%+v: %q, %t", tt.field, name, inline)
		}
	}
}

func TestSupports(t *testing.T) {
	for typ, want := range map[reflect.Type]bool{
		reflect.TypeFor[*corev1.Pod](): true, reflect.TypeFor[corev1.Pod](): false, reflect.TypeFor[*string](): false, reflect.TypeFor[*header](): false,
	} {
		if got := Supports(typ); got != want {
			t.Errorf("%v: %t", typ, got)
		}
	}
}
