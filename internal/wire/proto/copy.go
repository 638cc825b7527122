package proto

import (
	"reflect"
	"unsafe"
)

// What reflect does at a place in memory by the type alone begins with a lookup of the type of its pointer, which takes as long as to copy a small struct.
// So the plans keep that type, in a nil pointer.

// boxed is the memory of an any.
type boxed struct{ typ, data unsafe.Pointer }

// nilPointer returns a nil pointer to a value of the type.
func nilPointer(typ reflect.Type) any { return reflect.Zero(reflect.PointerTo(typ)).Interface() }

// valueAt returns the value at p, to which a pointer has the type of this one.
func valueAt(pointer any, p unsafe.Pointer) reflect.Value {
	(*boxed)(unsafe.Pointer(&pointer)).data = p
	return reflect.ValueOf(pointer).Elem()
}

// copyValue copies the value at from to to. A pointer to it has the type of this one.
func copyValue(pointer any, to, from unsafe.Pointer) {
	valueAt(pointer, to).Set(valueAt(pointer, from))
}

// cloneValue returns a pointer to a copy of the value at from.
func cloneValue(pointer any, from unsafe.Pointer) unsafe.Pointer {
	v := valueAt(pointer, from)
	if v.Type().Size() <= unsafe.Sizeof(from) { // an any may have the value itself
		p := reflect.New(v.Type())
		p.Elem().Set(v)
		return p.UnsafePointer()
	}
	copied := v.Interface()
	return (*boxed)(unsafe.Pointer(&copied)).data // nobody else has this any
}

// clear makes the field at p what it is in a new message.
func (f *field) clear(p unsafe.Pointer) {
	if f.op == skipOp {
		return
	}
	switch f.form {
	case pointer, mapping:
		*(*unsafe.Pointer)(p) = nil
	case list:
		*(*header)(p) = header{}
	default:
		valueAt(f.typed, p).SetZero()
	}
}

// copy makes the field at p what it is at from.
func (f *field) copy(p, from unsafe.Pointer) {
	switch {
	case f.op == skipOp:
	case f.op == stringOp:
		*(*string)(p) = *(*string)(from)
	case f.form == list:
		*(*header)(p) = *(*header)(from)
	case f.form == pointer || f.form == mapping:
		*(*unsafe.Pointer)(p) = *(*unsafe.Pointer)(from)
	default:
		copyValue(f.typed, p, from)
	}
}
