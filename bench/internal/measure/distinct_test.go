package measure

import (
	"reflect"
	"testing"
)

// TestDistinctParts counts the memory of objects that differ in one part from one object.
func TestDistinctParts(t *testing.T) {
	type inner struct{ A, B, C, D int64 }
	type object struct {
		Name    string
		Pointer *inner
		List    []inner
		Map     map[string]string
		Any     any
	}
	with := func(change func(*object)) *object {
		o := &object{
			Name: "a name", Pointer: &inner{A: 1}, List: []inner{{A: 2}, {A: 3}}, Map: map[string]string{"key": "value"},
			Any: map[string]any{"nested": []any{"text", int64(5), true, nil}},
		}
		change(o)
		return o
	}
	const itself = 80 // a string, two pointers, a slice, an interface
	tests := map[string]struct {
		change func(*object)
		more   int
	}{
		"nothing":   {func(*object) {}, 0},
		"name":      {func(o *object) { o.Name = "another" }, itself + len("another")},
		"pointer":   {func(o *object) { o.Pointer = &inner{A: 9} }, itself + 32},
		"same part": {func(o *object) { o.Pointer = &o.List[0] }, itself + 32}, // lists are parts as a whole
		"list":      {func(o *object) { o.List = append(o.List, inner{}) }, itself + 96},
		"no list":   {func(o *object) { o.List = nil }, itself},
		"map":       {func(o *object) { o.Map = map[string]string{"key": "other"} }, itself + 48 + 288 + len("other")},
		"any":       {func(o *object) { o.Any = int64(300) }, itself + 8},
		"bool":      {func(o *object) { o.Any = false }, itself},
	}
	count := func(objects ...*object) int {
		p := parts{ids: map[string]uint64{}, maps: map[mapSize]int{}}
		for _, o := range objects {
			p.value(nil, reflect.ValueOf(o))
		}
		return p.bytes
	}
	same := func(*object) {}
	for name, test := range tests {
		if more := count(with(same), with(test.change)) - count(with(same)); more != test.more {
			t.Errorf("%s: %d bytes more, want %d", name, more, test.more)
		}
	}
}

// TestDistinct checks that the bound is below what objects take that share nothing, but above the pods' own structs.
func TestDistinct(t *testing.T) {
	for _, d := range []Distinct{{Objects: 200}, {Objects: 200, Unstructured: true}} {
		m, err := d.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		least, most := 1240.0, 12_000.0
		if d.Unstructured {
			least, most = 8_000, 40_000
		}
		if got := m["distinct"]; got < least || got > most {
			t.Errorf("%+v: %.0f bytes a pod, want %.0f to %.0f", d, got, least, most)
		}
	}
}
