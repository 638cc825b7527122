package intake

import (
	"reflect"
	"testing"

	"github.com/tidings/tidings/object"
)

// public is a type that users see.
type public struct{ Internals }

// hidden are its internals.
type hidden struct{ strayWrite *func(string) }

func (hidden) SharedBytes() int64                  { return 7 }
func (h hidden) OnStrayWrite(f func(field string)) { *h.strayWrite = f }

// embedding inherits the internals, and overriding has its own in their place.
type (
	embedding  struct{ *public }
	overriding struct {
		*public
		Internals
	}
)

// TestInternals are found in the types that have them or inherit them, and in types without, which have no others.
func TestInternals(t *testing.T) {
	inner := hidden{new(func(string))}
	p := &public{NewInternals(inner)}
	for name, v := range map[string]any{
		"a public type": p, "one that embeds it": embedding{p}, "one that wraps it": SharedParts{p},
		"an own type":             inner,
		"one that overrides them": overriding{&public{}, NewInternals(inner)},
	} {
		*inner.strayWrite = nil
		parts, found := SharedParts{v}, ""
		parts.OnStrayWrite(func(field string) { found = field })
		if f := *inner.strayWrite; f == nil || parts.SharedBytes() != 7 {
			t.Errorf("%s: %d bytes", name, parts.SharedBytes())
		} else if f("labels"); found != "labels" {
			t.Errorf("%s: found %q", name, found)
		}
	}
	for name, v := range map[string]any{"nothing": nil, "no internals": 1, "empty ones": &public{}} {
		parts := SharedParts{v}
		if parts.OnStrayWrite(nil); parts.SharedBytes() != 0 {
			t.Errorf("%s: %d bytes", name, parts.SharedBytes())
		}
	}
}

// declaring is a source that says which type its objects have.
type declaring struct{ typ reflect.Type }

func (d declaring) ObjectType() reflect.Type { return d.typ }

// TestObjectType is what a source says, if that can be.
func TestObjectType(t *testing.T) {
	things, objects := reflect.TypeFor[thing](), reflect.TypeFor[object.Object]()
	for name, tt := range map[string]struct {
		src  declaring
		want reflect.Type
	}{
		"a pointer to a struct": {declaring{things}, things}, "no pointer": {declaring{things.Elem()}, objects},
		"another type": {declaring{reflect.TypeFor[*int]()}, objects}, "none": {declaring{}, objects},
	} {
		if got := ObjectType[object.Object](tt.src); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
		if got := ObjectType[thing](tt.src); got != things {
			t.Errorf("%s: %v where only one type can be", name, got)
		}
	}
	if got := ObjectType[object.Object](7); got != objects {
		t.Errorf("a source that says nothing has objects of %v", got)
	}
}
