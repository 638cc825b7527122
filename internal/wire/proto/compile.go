package proto

import (
	"reflect"
	"unsafe"

	"github.com/tidings/tidings/internal/wire/share"
)

// kind is the type of one value, which decides how it is encoded and stored.
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

// form is how a field holds its values, and how many.
type form uint8

const (
	single form = iota
	pointer
	list
	mapping
)

// maxFields is the number of bits in the set of fields seen.
const maxFields = 64

// message is the plan for one message type on one path.
type message struct {
	*messageType
	parent *message // the plan of the enclosing message
	path   string
	trims  *trimTree
	fields []*field // by field number; nil until the field is first seen
}

// field is the plan for one field of a message, with what the decoder learned of its values on this
// path. It is created with the first value: objects use few of the fields that their types have.
type field struct {
	fieldType
	// site is for the whole field, element for one element of a list or map, key for the keys of a map.
	site, element, key *site
	// parent is the plan that the field belongs to, sub that of the messages it holds, created when first needed.
	parent, sub *message
	// shapes say which table entries fit: shape for one value, wholeShape for a whole list or map.
	shape, wholeShape uint32
	// layout is for one value, mapLayout for a whole map.
	layout, mapLayout *layout
	// arrays caches nil pointers to short array types of typ.
	arrays *[8]any
	path   string
	// below holds the trims inside the field, entries the trimmed keys of a map.
	below   *trimTree
	entries map[string]bool
}

// noField stands for fields that a message does not have.
var noField = new(field)

// op is what the decoder does with a field, derived from form, kind and trims.
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

// noWire is not a wire type.
const noWire = 0xff

// siteBytes is roughly the memory of a site and its part of the plans.
const siteBytes = 480

// compiler compiles plans for one decoder.
type compiler struct {
	sites  []*site
	policy *share.Policy // for sites of values that objects refer to
}

func (c *compiler) site(path string) *site {
	c.sites = append(c.sites, newSite(path, c.policy))
	return c.sites[len(c.sites)-1]
}

func (c *compiler) copySite(path string) *site {
	c.sites = append(c.sites, newCopySite(path))
	return c.sites[len(c.sites)-1]
}

// message creates the plan for the struct type typ, which checkMessage has accepted.
func (c *compiler) message(typ reflect.Type, parent *message, path string, trims *trimTree) *message {
	t := goTypes.message(typ)
	return &message{messageType: t, parent: parent, path: path, trims: trims, fields: make([]*field, len(t.index))}
}

// field returns the plan for the field with this number. Its op is skipOp if there is none.
func (c *compiler) field(m *message, num int32) *field {
	if int(num) >= len(m.fields) {
		return noField
	}
	if m.fields[num] == nil {
		m.fields[num] = c.newField(m, goTypes.field(m.messageType, num))
	}
	return m.fields[num]
}

func (c *compiler) newField(m *message, t *fieldType) *field {
	if t == nil {
		return noField
	}
	f := &field{fieldType: *t, parent: m, path: m.path}
	trimmed := false
	if t.inline {
		f.below = m.trims
	} else {
		f.path = join(m.path, t.name)
		trimmed, f.below, f.entries = m.trims.at(t.name)
	}
	if trimmed {
		f.op, f.zeroWire = skipOp, noWire
		return f
	}
	c.prepare(f)
	return f
}

// prepare fills in what looking up f's values needs.
func (c *compiler) prepare(f *field) {
	f.layout = goTypes.layout(f.typ)
	f.shape = goTypes.shape(f.typ, single, f.path, f.below, nil)
	if f.kind == stringKind {
		f.shape = stringShape
	}
	f.wholeShape = f.shape
	switch f.form {
	case single:
		c.prepareSingle(f)
	case pointer:
		if f.op == varintPointerOp {
			return
		}
		f.site = c.site(f.path)
		if f.kind == stringKind {
			f.wholeShape = goTypes.shape(f.typ, pointer, f.path, nil, nil)
		}
	case mapping:
		f.mapLayout = goTypes.layout(f.whole)
		c.prepareMany(f)
		f.key = c.site(f.path + "[]") // separate from the values, which may never repeat
	case list:
		c.prepareMany(f)
	}
}

// prepareSingle prepares lookups of single values: strings and messages.
func (c *compiler) prepareSingle(f *field) {
	switch f.kind {
	case stringKind:
		f.site = c.site(f.path)
	case messageKind:
		f.site = c.copySite(f.path)
	}
}

func (c *compiler) prepareMany(f *field) {
	if f.op == numbersOp {
		return
	}
	f.wholeShape = goTypes.shape(f.whole, f.form, f.path, f.below, f.entries)
	f.site = c.site(f.path)
	if f.kind == messageKind {
		f.element = c.copySite(f.path + "[]")
	} else {
		f.element = c.site(f.path + "[]")
	}
}

// plan returns the plan of f's messages. Their type was checked when f was compiled. A recursive
// type gets one plan for all depths, so that the number of plans depends on the types and not on
// the data.
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

// enclosing returns the plan of an enclosing message of f's type, if neither is trimmed.
func (f *field) enclosing() *message {
	for m := f.parent; m != nil && f.below == nil; m = m.parent {
		if m.typ == f.typ && m.trims == nil {
			return m
		}
	}
	return nil
}

// itemsMessage returns the plan of a slice type that is a message itself: field 1, repeated, is the slice.
func (c *compiler) itemsMessage(f *field) *message {
	elem := f.typ.Elem()
	item := &field{
		fieldType: fieldType{op: listOp, zeroWire: noWire, bit: 1, form: list, kind: stringKind, typ: elem, size: elem.Size()},
		path:      f.path, shape: stringShape, wholeShape: goTypes.shape(f.typ, list, f.path, nil, nil), layout: goTypes.layout(elem),
		site: c.site(f.path + "[]"), element: c.site(f.path + "[][]"),
	}
	t := &messageType{typ: f.typ, places: []place{{0, unsafe.Sizeof(header{})}}}
	return &message{messageType: t, path: f.path, fields: []*field{noField, item}}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
