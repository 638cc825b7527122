package saved

import (
	"reflect"
	"testing"
)

// TestLayoutOfTypesOfOneName: another version of a program may have a type of the same name with
// other fields, possibly nested, and its files must not be read.
func TestLayoutOfTypesOfOneName(t *testing.T) {
	before, renamed, retagged, embedded, deeper := typeBefore(), typeRenamed(), typeRetagged(), typeEmbedded(), typeDeeper()
	for name, after := range map[string]reflect.Type{"renamed": renamed, "retagged": retagged, "embedded": embedded, "deeper": deeper} {
		if before.String() != after.String() {
			t.Fatalf("%s and %s are not of one name", before, after)
		}
		for where, in := range map[string]func(reflect.Type) reflect.Type{
			"itself": func(typ reflect.Type) reflect.Type { return typ }, "a pointer": reflect.PointerTo, "a slice": reflect.SliceOf,
			"an array":    func(typ reflect.Type) reflect.Type { return reflect.ArrayOf(2, typ) },
			"a map's key": func(typ reflect.Type) reflect.Type { return reflect.MapOf(typ, reflect.TypeFor[int]()) },
			"a map":       func(typ reflect.Type) reflect.Type { return reflect.MapOf(reflect.TypeFor[int](), typ) },
		} {
			if layout(in(before)) == layout(in(after)) {
				t.Errorf("%s: a field of %s is %s, and the layout the same", where, before, name)
			}
		}
	}
	if layout(before) != layout(typeBefore()) {
		t.Error("a type has two layouts")
	}
}

// Types with equal names in reflect.

func typeBefore() reflect.Type {
	type inner struct{ A int }
	type saved struct{ A inner }
	return reflect.TypeFor[saved]()
}

func typeRenamed() reflect.Type {
	type inner struct{ A int }
	type saved struct{ B inner }
	return reflect.TypeFor[saved]()
}

func typeRetagged() reflect.Type {
	type inner struct{ A int }
	type saved struct {
		A inner `json:"a"`
	}
	return reflect.TypeFor[saved]()
}

func typeEmbedded() reflect.Type {
	type inner struct{ A int }
	type A = inner
	type saved struct{ A }
	return reflect.TypeFor[saved]()
}

func typeDeeper() reflect.Type {
	type inner struct{ B int }
	type saved struct{ A inner }
	return reflect.TypeFor[saved]()
}

// recursive refers to itself, as schemas do.
type recursive struct {
	Items []recursive
	Named map[string]*recursive
}

func TestLayoutOfATypeThatRefersToItself(t *testing.T) {
	if layout(reflect.TypeFor[recursive]()) == "" {
		t.Error("there is no layout")
	}
}

// TestTypeNames distinguishes types of different objects.
func TestTypeNames(t *testing.T) {
	for typ, want := range map[reflect.Type]string{
		reflect.TypeFor[settings](): "*k8s.io/api/core/v1.ConfigMap", reflect.TypeFor[*settings](): "**k8s.io/api/core/v1.ConfigMap",
		reflect.TypeFor[Status](): "github.com/tidings/tidings/internal/saved.Status",
	} {
		if got := typeName(typ); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
