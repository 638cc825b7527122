package proto

import (
	"reflect"
	"unsafe"
)

// A reflect operation on memory at a given type starts with a lookup of the pointer type, which
// takes as long as copying a small struct. So plans keep the pointer type, in a nil pointer.

// boxed is the memory of an any.
type boxed struct{ typ, data unsafe.Pointer }

// nilPointer returns a nil pointer to the type.
func nilPointer(typ reflect.Type) any { return reflect.Zero(reflect.PointerTo(typ)).Interface() }

// valueAt returns the value at p. pointer is a nil pointer of its type.
func valueAt(pointer any, p unsafe.Pointer) reflect.Value {
	(*boxed)(unsafe.Pointer(&pointer)).data = p
	return reflect.ValueOf(pointer).Elem()
}

// copyValue copies the value at from to to. pointer is a nil pointer of its type.
func copyValue(pointer any, to, from unsafe.Pointer) {
	valueAt(pointer, to).Set(valueAt(pointer, from))
}

// cloneValue returns a pointer to a copy of the value at from.
func cloneValue(pointer any, from unsafe.Pointer) unsafe.Pointer {
	v := valueAt(pointer, from)
	if v.Type().Size() <= unsafe.Sizeof(from) { // an any may hold such a value itself
		p := reflect.New(v.Type())
		p.Elem().Set(v)
		return p.UnsafePointer()
	}
	// Interface allocates the copy without the lookup that reflect.New begins with.
	copied := v.Interface()
	return (*boxed)(unsafe.Pointer(&copied)).data // nobody else has this any
}

// clear resets the field at p.
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

// copy copies the field at from to p.
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
