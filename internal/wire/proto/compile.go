package proto

import "reflect"

// kind is how one value is encoded and stored.
type kind uint8

const (
	stringKind kind = iota
	bytesKind
	boolKind
	int32Kind // and uint32
	int64Kind // and uint64
	messageKind
	timeKind
	microTimeKind
	quantityKind
	foreignKind // decoded by its own Unmarshal
)

// form is how many values a field has and how it holds them.
type form uint8

const (
	single form = iota
	pointer
	list
	mapping
)

// maxFields is the number of fields that the set of seen fields has bits for.
const maxFields = 64

// message is the plan for one message type on one path.
type message struct {
	typ    reflect.Type
	parent *message // the plan of the message that this one is in
	trims  *trimTree
	fields []*field // by field number; nil where there is none
	places []place  // of all fields of the struct, in the order of their bits
}

// field is the plan for one field of a message, and what is known of its values on this path. What every value needs
// comes first.
type field struct {
	op   op
	kind kind
	form form
	// zeroWire is the wire type with which a single zero byte stands for the zero value, or noWire.
	zeroWire uint8
	bit      uint64 // its bit in the set of fields that were seen
	offset   uintptr
	size     uintptr // of one value
	// site is that of the whole field, element that of one element of a list or map.
	site, element *site
	// parent is the plan that the field belongs to, sub that of the messages it holds, made when it is first needed.
	parent, sub *message
	// shapes say which table entries fit: for one value, and for the whole of a list or map.
	shape, wholeShape uint32
	typ               reflect.Type
	whole             reflect.Type // of the field itself
	// layout is that of one value, mapLayout that of the whole of a map.
	layout, mapLayout *layout
	// arrays holds the types of short arrays of typ, made as they are needed.
	arrays [8]reflect.Type
	path   string
	// below holds the trims inside of the field, entries the trimmed keys of a map.
	below   *trimTree
	entries map[string]bool
	// timeShaped says that the value is one time and nothing else.
	timeShaped bool
	// items is set for a slice type that is a message with one repeated string.
	items bool
}

// op is what the decoder does with a field: a digest of form, kind and trims.
type op uint8

const (
	skipOp op = iota
	stringOp
	timeOp
	valueOp // a single value of another kind that is encoded as bytes
	varintOp
	varintPointerOp
	pointerOp
	listOp
	numbersOp
	mapOp
)

// noWire is no wire type.
const noWire = 0xff

func (f *field) chooseZeroWire() uint8 {
	switch {
	case f.op == varintOp:
		return varintWire
	case f.op == stringOp || f.op == timeOp || f.op == valueOp && !f.items && f.kind != bytesKind && f.kind != foreignKind:
		return bytesWire
	}
	return noWire
}

func (f *field) chooseOp() op {
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

// compiler makes plans for one decoder.
type compiler struct {
	shapes  map[shapeKey]uint32
	next    uint32
	sites   []*site
	layouts layouts
}

// shapeKey names a shape: a Go type and how it is held. Values of one shape may be exchanged for one another.
type shapeKey struct {
	typ  reflect.Type
	form form
	// path is set where trimming makes the values of this path special.
	path string
}

func newCompiler() *compiler {
	return &compiler{shapes: map[shapeKey]uint32{}, next: stringShape + 1, layouts: layouts{}}
}

func (c *compiler) shape(typ reflect.Type, form form, path string, trims *trimTree, entries map[string]bool) uint32 {
	key := shapeKey{typ: typ, form: form}
	if trims != nil || entries != nil {
		key.path = path
	}
	if s, ok := c.shapes[key]; ok {
		return s
	}
	c.shapes[key] = c.next
	c.next++
	return c.next - 1
}

func (c *compiler) site(path string) *site {
	c.sites = append(c.sites, newSite(path))
	return c.sites[len(c.sites)-1]
}

func (c *compiler) copySite(path string) *site {
	c.sites = append(c.sites, newCopySite(path))
	return c.sites[len(c.sites)-1]
}

// message compiles the struct type typ, which checkMessage has accepted.
func (c *compiler) message(typ reflect.Type, parent *message, path string, trims *trimTree) *message {
	m := &message{typ: typ, parent: parent, trims: trims}
	for i := range typ.NumField() {
		sf := typ.Field(i)
		m.places = append(m.places, place{sf.Offset, sf.Type.Size()})
		num, _ := fieldNumber(sf)
		if num == 0 {
			continue
		}
		f := &field{parent: m, path: path, bit: 1 << i, offset: sf.Offset}
		trimmed := false
		if name, inline := jsonName(sf); inline {
			f.below = trims
		} else {
			f.path = join(path, name)
			trimmed, f.below, f.entries = trims.at(name)
		}
		if !trimmed {
			c.classify(f, sf.Type)
			f.op = f.chooseOp()
			f.zeroWire = f.chooseZeroWire()
		}
		for int(num) >= len(m.fields) {
			m.fields = append(m.fields, nil)
		}
		m.fields[num] = f
	}
	return m
}

// classify fills in how f's values are held and encoded.
func (c *compiler) classify(f *field, t reflect.Type) {
	form, elem, _ := formOf(t)
	k := kindOf(elem)
	f.form, f.whole, f.typ, f.size = form, t, elem, elem.Size()
	f.kind = k
	f.items = k == messageKind && elem.Kind() == reflect.Slice
	f.timeShaped = f.form == pointer && isTimeShaped(elem)
	f.layout = c.layouts.of(elem)
	if form == mapping {
		f.mapLayout = c.layouts.of(t)
	}
	f.site = c.site(f.path)
	if f.form == single && (k == messageKind || k == quantityKind) {
		f.site = c.copySite(f.path)
	}
	f.element = f.site
	f.shape = c.shape(elem, single, f.path, f.below, nil)
	if k == stringKind {
		f.shape = stringShape
	}
	f.wholeShape = f.shape
	if f.form == pointer && k == stringKind {
		f.wholeShape = c.shape(elem, pointer, f.path, nil, nil)
	}
	if f.form == list || f.form == mapping {
		f.element = c.site(f.path + "[]")
		if k == messageKind {
			f.element = c.copySite(f.path + "[]")
		}
		f.wholeShape = c.shape(t, f.form, f.path, f.below, f.entries)
	}
}

// plan returns the plan of f's messages. Their type was checked when f was compiled. A type that contains itself gets
// one plan for all depths, so that the number of plans depends on the types and not on the data.
func (c *compiler) plan(f *field) *message {
	switch {
	case f.sub != nil:
	case f.items:
		f.sub = c.itemsMessage(f)
	default:
		if f.sub = f.enclosing(); f.sub == nil {
			f.sub = c.message(f.typ, f.parent, f.path, f.below)
		}
	}
	return f.sub
}

// enclosing returns the plan of a message of f's type that encloses f and is trimmed like f's, which is not at all.
func (f *field) enclosing() *message {
	for m := f.parent; m != nil && f.below == nil; m = m.parent {
		if m.typ == f.typ && m.trims == nil {
			return m
		}
	}
	return nil
}

// itemsMessage is the plan of a slice type that is a message of its own: field 1, repeated, is the slice.
func (c *compiler) itemsMessage(f *field) *message {
	elem := f.typ.Elem()
	item := &field{
		op: listOp, zeroWire: noWire, path: f.path, bit: 1, form: list, kind: stringKind, typ: elem, size: elem.Size(),
		shape: stringShape, wholeShape: c.shape(f.typ, list, f.path, nil, nil), layout: c.layouts.of(elem),
		site: c.site(f.path + "[]"), element: c.site(f.path + "[][]"),
	}
	return &message{typ: f.typ, fields: []*field{nil, item}}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
