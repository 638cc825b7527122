package proto

import (
	"reflect"
	"sync"
	"sync/atomic"
)

// messageType describes a struct type, regardless of the path it is on.
type messageType struct {
	typ    reflect.Type
	index  []int8       // by field number: 1 + the index in the struct; 0 where the type has no field
	fields []*fieldType // by field number; nil until the field is first seen
	places []place      // all fields of the struct, in the order of their bits
}

// fieldForm is what every value of a field needs, so that each plan has a copy.
type fieldForm struct {
	op   op
	kind kind
	form form
	// zeroWire is the wire type with which a single zero byte encodes the zero value, or noWire.
	zeroWire uint8
	// timeShaped says that the value is a pointer to a single time.
	timeShaped bool
	// items is set for a slice type that is a message with one repeated string.
	items  bool
	inline bool    // its fields are inlined into its message in JSON
	bit    uint64  // its bit in the set of fields seen
	offset uintptr // in the message
	size   uintptr // of one value
}

// fieldType describes a field, regardless of the path of its message. All plans share it.
type fieldType struct {
	fieldForm
	arrays arrayTypes
	typ    reflect.Type
	typed  any          // a nil pointer to the value type
	whole  reflect.Type // the type of the field itself
	name   string       // in JSON; empty if inline
}

func newMessageType(typ reflect.Type) *messageType {
	m := &messageType{typ: typ, places: make([]place, 0, typ.NumField())}
	for i := range typ.NumField() {
		sf := typ.Field(i)
		m.places = append(m.places, place{uint32(sf.Offset), uint32(sf.Type.Size())})
		num, _ := fieldNumber(sf)
		if num == 0 {
			continue
		}
		if missing := int(num) + 1 - len(m.index); missing > 0 {
			m.index = append(m.index, make([]int8, missing)...)
		}
		m.index[num] = int8(i + 1)
	}
	m.fields = make([]*fieldType, len(m.index))
	return m
}

func newFieldType(sf reflect.StructField, bit uint64) *fieldType {
	form, elem, _ := formOf(sf.Type)
	f := &fieldType{
		fieldForm: fieldForm{bit: bit, offset: sf.Offset, form: form, kind: kindOf(elem), size: elem.Size()},
		whole:     sf.Type, typ: elem, typed: nilPointer(elem),
	}
	f.name, f.inline = jsonName(sf)
	f.items = f.kind == messageKind && elem.Kind() == reflect.Slice
	f.timeShaped = f.form == pointer && isTimeShaped(elem)
	f.op = f.chooseOp()
	f.zeroWire = f.chooseZeroWire()
	return f
}

// arrayTypes are the types of short arrays of a field's values.
type arrayTypes struct {
	wanted  atomic.Uint32                 // how often none was there
	byCount atomic.Pointer[[maxArray]any] // nil pointers to the types, by the number of values
}

const (
	// maxArray is the length from which on slices are not allocated as arrays.
	maxArray = 8
	// manyArrays is how many short slices a field must have had: the program keeps the type of an
	// array for good, and a few slices are not worth that.
	manyArrays = 64
)

// arrayOf returns a nil pointer to the type of an array of n values, or nil if there is none.
func (f *fieldType) arrayOf(n int) any {
	if n >= maxArray {
		return nil
	}
	if types := f.arrays.byCount.Load(); types != nil && types[n] != nil {
		return types[n]
	}
	if f.arrays.wanted.Add(1) < manyArrays {
		return nil
	}
	goTypes.mu.Lock()
	defer goTypes.mu.Unlock()
	var types [maxArray]any
	if before := f.arrays.byCount.Load(); before != nil {
		types = *before
	}
	types[n] = nilPointer(reflect.ArrayOf(n, f.typ))
	f.arrays.byCount.Store(&types)
	return types[n]
}

func (f *fieldType) isVarint() bool {
	return f.kind == boolKind || f.kind == int32Kind || f.kind == int64Kind
}

func (f *fieldType) chooseZeroWire() uint8 {
	switch {
	case f.op == varintOp:
		return varintWire
	case f.op == stringOp || f.op == timeOp || f.op == valueOp && !f.items && f.kind != bytesKind && f.kind != foreignKind:
		return bytesWire
	}
	return noWire
}

func (f *fieldType) chooseOp() op {
	switch {
	case f.form == list && f.isVarint():
		return numbersOp
	case f.form == list:
		return listOp
	case f.form == mapping:
		return mapOp
	case f.form == pointer && f.isVarint():
		return varintPointerOp
	case f.form == pointer:
		return pointerOp
	case f.isVarint():
		return varintOp
	case f.kind == stringKind:
		return stringOp
	case f.kind == timeKind:
		return timeOp
	}
	return valueOp
}

// goTypes describes the Go types, for all decoders of the program. Decoders consult it when they first see a field.
var goTypes = typeCache{messages: map[reflect.Type]*messageType{}, shapes: map[shapeKey]uint32{}, layouts: layouts{}}

type typeCache struct {
	mu       sync.Mutex
	messages map[reflect.Type]*messageType
	shapes   map[shapeKey]uint32
	layouts  layouts
}

func (c *typeCache) message(typ reflect.Type) *messageType {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.messages[typ]
	if !ok {
		m = newMessageType(typ)
		c.messages[typ] = m
	}
	return m
}

// field returns the type of the field of m with this number, or nil if there is none.
func (c *typeCache) field(m *messageType, num int32) *fieldType {
	if int(num) >= len(m.index) || m.index[num] == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.fields[num] == nil {
		i := int(m.index[num] - 1)
		m.fields[num] = newFieldType(m.typ.Field(i), 1<<i)
	}
	return m.fields[num]
}

func (c *typeCache) layout(typ reflect.Type) *layout {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.layouts.of(typ)
}

// shapeKey identifies a shape: a Go type and how it is held. Values of one shape are interchangeable.
type shapeKey struct {
	typ  reflect.Type
	form form
	// path is set if trimming makes the values at this path special.
	path string
}

// shape returns the shape of values of f, or of its elements. trimmed says that something inside them is trimmed.
func (c *typeCache) shape(f *field, typ reflect.Type, form form, trimmed bool) uint32 {
	key := shapeKey{typ: typ, form: form}
	if trimmed {
		key.path = f.path()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	shape, ok := c.shapes[key]
	if !ok {
		shape = stringShape + 1 + uint32(len(c.shapes))
		c.shapes[key] = shape
	}
	return shape
}
