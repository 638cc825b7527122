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
	of     *field // whose values the messages are; nil for the object
	trims  *trimTree
	fields []*field // by field number; nil until the field is first seen
}

// field is the plan for one field of a message, with what the decoder learned of its values on this
// path. It is created with the first value: objects use few of the fields that their types have.
type field struct {
	fieldForm // of the type
	*fieldType
	// site is for the whole field, element for one element of a list or map.
	site, element *site
	// parent is the plan that the field belongs to, sub that of the messages it holds, created when first needed.
	parent, sub *message
	// shapes say which table entries fit: shape for one value, wholeShape for a whole list or map.
	shape, wholeShape uint32
	layout            *layout // of one value
	mapped            *mapped // nil unless it is a map
}

// mapped is what the plan for a map has in addition.
type mapped struct {
	key    *site // for the keys: separate from the values, which may never repeat
	layout *layout
	trims  map[string]bool // keys that are trimmed
}

// isMessage reports whether the values of the field are messages with fields of their own.
func (f *field) isMessage() bool { return f.kind == messageKind && !f.items }

// noField stands for fields that a message does not have.
var noField = &field{fieldType: &fieldType{}, fieldForm: fieldForm{inline: true}}

// path returns the path from the object's root, such as "spec.containers".
func (f *field) path() string {
	above := ""
	if f.parent != nil && f.parent.of != nil {
		above = f.parent.of.path()
	}
	if f.inline {
		return above
	}
	return join(above, f.name)
}

// trims returns what is trimmed inside the field: parts of its messages, or entries of a map.
func (f *field) trims() (below *trimTree, entries map[string]bool) {
	if f.inline {
		return f.parent.trims, nil
	}
	_, below, entries = f.parent.trims.at(f.name)
	return below, entries
}

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
const siteBytes = 300

// compiler compiles plans for one decoder.
type compiler struct {
	sites  []*site
	policy *share.Policy // for sites of values that objects refer to
}

// site returns a site for values that objects refer to.
func (c *compiler) site(f *field, depth uint8) *site { return c.add(newSite(f, depth, c.policy)) }

// copySite returns a site for values held in place.
func (c *compiler) copySite(f *field, depth uint8) *site { return c.add(newSite(f, depth, &copying)) }

func (c *compiler) add(s *site) *site {
	c.sites = append(c.sites, s)
	return s
}

// message creates the plan for the struct type typ, which checkMessage has accepted. of is nil for the object.
func (c *compiler) message(typ reflect.Type, of *field, trims *trimTree) *message {
	t := goTypes.message(typ)
	return &message{messageType: t, of: of, trims: trims, fields: make([]*field, len(t.index))}
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
	f := &field{fieldForm: t.fieldForm, fieldType: t, parent: m}
	if trimmed, _, _ := m.trims.at(t.name); trimmed && !t.inline {
		f.op, f.zeroWire = skipOp, noWire
		return f
	}
	c.prepare(f)
	return f
}

// prepare fills in what looking up f's values needs.
func (c *compiler) prepare(f *field) {
	f.layout = goTypes.layout(f.typ)
	below, entries := f.trims()
	f.shape = goTypes.shape(f, f.typ, single, below != nil)
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
		f.site = c.site(f, 0)
		if f.kind == stringKind {
			f.wholeShape = goTypes.shape(f, f.typ, pointer, false)
		}
	case mapping:
		c.prepareMany(f, below != nil || entries != nil)
		f.mapped = &mapped{key: c.site(f, 1), layout: goTypes.layout(f.whole), trims: entries}
	case list:
		c.prepareMany(f, below != nil || entries != nil)
	}
}

// prepareSingle prepares lookups of single values: strings and messages.
func (c *compiler) prepareSingle(f *field) {
	switch f.kind {
	case stringKind:
		f.site = c.site(f, 0)
	case messageKind:
		f.site = c.copySite(f, 0)
	}
}

func (c *compiler) prepareMany(f *field, trimmed bool) {
	if f.op == numbersOp {
		return
	}
	f.wholeShape = goTypes.shape(f, f.whole, f.form, trimmed)
	f.site = c.site(f, 0)
	if f.kind == messageKind {
		f.element = c.copySite(f, 1)
	} else {
		f.element = c.site(f, 1)
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
			below, _ := f.trims()
			f.sub = c.message(f.typ, f, below)
		}
	}
	return f.sub
}

// enclosing returns the plan of an enclosing message of f's type, if neither is trimmed.
func (f *field) enclosing() *message {
	if below, _ := f.trims(); below != nil {
		return nil
	}
	for in := f; in != nil; in = in.parent.of {
		if m := in.parent; m.typ == f.typ && m.trims == nil {
			return m
		}
	}
	return nil
}

// itemsMessage returns the plan of a slice type that is a message itself: field 1, repeated, is the slice.
func (c *compiler) itemsMessage(f *field) *message {
	elem := f.typ.Elem()
	form := fieldForm{
		op: listOp, zeroWire: noWire, inline: true, bit: 1, form: list, kind: stringKind, size: elem.Size(),
	}
	item := &field{
		fieldForm: form, fieldType: &fieldType{fieldForm: form, typ: elem},
		shape: stringShape, wholeShape: goTypes.shape(f, f.typ, list, false), layout: goTypes.layout(elem),
	}
	item.site, item.element = c.site(item, 1), c.site(item, 2)
	t := &messageType{typ: f.typ, places: []place{{0, uint32(unsafe.Sizeof(header{}))}}}
	item.parent = &message{messageType: t, of: f, fields: []*field{noField, item}}
	return item.parent
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
