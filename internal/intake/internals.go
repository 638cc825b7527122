package intake

import (
	"reflect"

	"github.com/tidings/tidings/object"
)

// Internals are methods that a type of a public package has for the packages of this module only. The type embeds them
// under an unexported name, so that neither its documentation nor its callers see them.
type Internals struct{ methods any }

// NewInternals returns the Internals with the exported methods of a value.
func NewInternals(methods any) Internals { return Internals{methods} }

// get is unexported, so that only InternalsOf calls it, and no other type has it by chance.
func (i Internals) get() any { return i.methods }

// InternalsOf returns the value whose methods v has for this module: that of its Internals, or else v itself, as types
// that no user sees simply have them. A type inherits the Internals of one that it embeds.
func InternalsOf(v any) any {
	if of, ok := v.(interface{ get() any }); ok {
		return of.get()
	}
	return v
}

// OwnInternalsOf is InternalsOf, but it returns v itself if v has inherited the Internals of one that it embeds: what v
// does may differ. That is known of Internals with a method Self() any, which returns what they belong to.
func OwnInternalsOf(v any) any {
	internals := InternalsOf(v)
	if of, ok := internals.(interface{ Self() any }); ok && of.Self() != v {
		return v
	}
	return internals
}

// SharedParts are the Internals of a source that concern parts which objects have in common. It passes them on from
// the source that it wraps, if that has them.
type SharedParts struct{ Of any }

// SharedBytes returns the memory, in bytes, that the source uses for shared parts of objects and for its plans of
// types; 0 if it says nothing. It is too expensive to call for every change.
func (s SharedParts) SharedBytes() int64 {
	if of, ok := InternalsOf(s.Of).(interface{ SharedBytes() int64 }); ok {
		return of.SharedBytes()
	}
	return 0
}

// OnStrayWrite sets a function that is called, while List or Next runs, when a part that objects share is found to have
// been written to. field is where it was noticed, such as "metadata.labels". The function must not block. Objects that
// already have the part keep it. Call it before the first List or Watch.
func (s SharedParts) OnStrayWrite(f func(field string)) {
	if of, ok := InternalsOf(s.Of).(interface{ OnStrayWrite(func(string)) }); ok {
		of.OnStrayWrite(f)
	}
}

// ObjectType returns the Go type of a source's objects: T, or if T is an interface, what the source's method
// ObjectType() reflect.Type returns.
func ObjectType[T object.Object](src any) reflect.Type {
	t := reflect.TypeFor[T]()
	typed, ok := src.(interface{ ObjectType() reflect.Type })
	if !ok || t.Kind() != reflect.Interface {
		return t
	}
	declared := typed.ObjectType()
	if declared != nil && declared.Kind() == reflect.Pointer && declared.AssignableTo(t) {
		return declared
	}
	return t
}
