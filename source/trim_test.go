package source

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type Inlined struct {
	Deep string `json:"deep"`
}

// TestFieldByJSONName finds fields by the names that encoding/json gives them.
func TestFieldByJSONName(t *testing.T) {
	type fields struct {
		Tagged   string `json:"tagged,omitempty"`
		Untagged string
		Inlined  `json:",inline"`
		hidden   string
		Embedded Inlined `json:"embedded"`
		Plain    struct {
			Inner string `json:"inner"`
		}
	}
	_ = fields{}.hidden
	for name, want := range map[string][]int{
		"tagged": {0}, "Tagged": nil, "Untagged": {1}, "untagged": nil, "deep": {2, 0}, "Inlined": nil, "hidden": nil, "embedded": {4}, "Embedded": nil, "Plain": {5}, "inner": nil,
	} {
		if got := fieldByJSONName(reflect.TypeFor[fields](), name); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: field %v, want %v", name, got, want)
		}
	}
}

// TestTrimFindsNothing: paths that do not exist change nothing.
func TestTrimFindsNothing(t *testing.T) {
	for _, v := range []any{
		map[int]string{1: "x"}, map[string]any{"b": 1}, map[string]any{"a": nil}, map[string]any{"a": 7}, []any{nil, 1}, struct{ A *int }{}, (*corev1.Pod)(nil), 7,
	} {
		got, changed := withoutField(reflect.ValueOf(v), []string{"a", "b"})
		if changed || !reflect.DeepEqual(got.Interface(), v) {
			t.Errorf("%#v became %#v, changed %t", v, got.Interface(), changed)
		}
	}
	for _, tt := range []struct {
		v, want any
		names   []string
	}{
		{map[string]any{"a": 1, "b": 2}, map[string]any{"b": 2}, []string{"a"}},
		{map[string]any{"a": nil}, map[string]any{}, []string{"a"}},
		{map[string]map[string]string{"a": {"b": "c", "d": "e"}}, map[string]map[string]string{"a": {"d": "e"}}, []string{"a", "b"}},
		{[]any{map[string]any{"a": 1}, 3}, []any{map[string]any{}, 3}, []string{"a"}},
	} {
		got, changed := withoutField(reflect.ValueOf(tt.v), tt.names)
		if !changed || !reflect.DeepEqual(got.Interface(), tt.want) {
			t.Errorf("%#v became %#v, changed %t", tt.v, got.Interface(), changed)
		}
	}
	for _, p := range []any{&struct{ A *int }{}, &corev1.Pod{}} {
		if got, changed := withoutField(reflect.ValueOf(p), []string{"a", "b"}); changed || got.Interface() != p {
			t.Errorf("%#v became %#v, changed %t", p, got.Interface(), changed)
		}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"a": int64(1)}}
	if got := trimObject(u, []string{"b"}); got != u {
		t.Errorf("an object without the field is another one: %v", got)
	}
}
