package proto

import (
	"errors"
	"unsafe"
)

var errDepth = errors.New("protobuf: messages are nested too deeply")

// fieldOf returns the plan for a field of m. Its op is skipOp if there is none.
func (d *decoder) fieldOf(m *message, num int32) *field {
	if int(num) < len(m.fields) {
		if f := m.fields[num]; f != nil {
			return f
		}
	}
	return d.compiler.field(m, num)
}

// message decodes b into the value at p, of type m.typ. In plain mode the value may already hold
// something. Here and below, old is the same place in the previous version, whose parts are reused
// if b has them too. It is nil if there is none: in plain mode, and in values for the table, which
// must not refer to an object.
//
// All the writing through unsafe pointers happens below here. It is safe because p always comes from an allocation of
// m.typ, or of a type that holds one at this place, and the offsets and types of the fields come from reflection
// on the same m.typ.
func (d *decoder) message(m *message, p, old unsafe.Pointer, b []byte) (err error) {
	if d.depth++; d.depth > maxDepth {
		return errDepth
	}
	var seen uint64
	for i := 0; i < len(b); {
		// Nearly every tag is one byte long: reading it here saves a call per field. tag reads, or rejects, all others.
		start, num, wire := i, int32(b[i]>>3), int(b[i]&7)
		if b[i] >= 8 && b[i] < 0x80 && wire != endGroupWire {
			i++
		} else if num, wire, i, err = tag(b, i); err != nil {
			return err
		}
		f := d.fieldOf(m, num)
		if f.op == skipOp {
			if i, err = skip(b, start); err != nil {
				return err
			}
			continue
		}
		if seen&f.bit != 0 && !d.plain {
			// What is there may be shared with other objects by now, so nothing can be merged into it.
			return errIrregular
		}
		seen |= f.bit
		if i < len(b) && b[i] == 0 && wire == int(f.zeroWire) && !d.plain {
			i++ // the zero value, which is already there: servers write many of them
			continue
		}
		at, before := unsafe.Add(p, f.offset), old
		if old != nil {
			before = unsafe.Add(old, f.offset)
		}
		switch f.op {
		case listOp:
			i, err = d.list(f, at, before, b, start, i, wire)
		case mapOp:
			i, err = d.mapping(f, at, before, b, start, i, wire)
		case numbersOp:
			i, err = d.numbers(f, at, before, b, start, i, wire)
		case varintOp, varintPointerOp:
			i, err = d.varint(f, at, b, i, wire)
		default:
			i, err = d.field(f, at, before, b, i, wire)
		}
		if err != nil {
			return err
		}
		if d.allowance < 0 {
			return errAllowance
		}
	}
	d.depth--
	return nil
}

// field decodes the length-delimited value at b[i:] into p, and returns the index after it.
func (d *decoder) field(f *field, p, old unsafe.Pointer, b []byte, i, wire int) (end int, err error) {
	if wire != bytesWire {
		return 0, wrongWire(f, wire)
	}
	from := i + 1
	if i < len(b) && b[i] < 0x80 && int(b[i]) <= len(b)-from {
		end = from + int(b[i])
	} else if from, end, err = prefixed(b, i); err != nil {
		return 0, err
	}
	switch f.op {
	case stringOp:
		d.string(f.site, (*string)(p), (*string)(old), b[from:end])
	case timeOp:
		err = setTime(timeKind, p, b[from:end])
	case pointerOp:
		err = d.pointer(f, (*unsafe.Pointer)(p), (*unsafe.Pointer)(old), b[from:end])
	default:
		err = d.value(f, f.site, p, old, b[from:end])
	}
	return end, err
}

// varint decodes the varint at b[i:] into p, which is the number or a pointer to one.
func (d *decoder) varint(f *field, p unsafe.Pointer, b []byte, i, wire int) (end int, err error) {
	if wire != varintWire {
		return 0, wrongWire(f, wire)
	}
	var v uint64
	if i < len(b) && b[i] < 0x80 {
		v, end = uint64(b[i]), i+1
	} else if v, end, err = uvarint(b, i); err != nil {
		return 0, err
	}
	if f.op == varintPointerOp {
		*(*unsafe.Pointer)(p) = d.newVarint(f, v)
	} else {
		setVarint(f.kind, p, v)
	}
	return end, nil
}

// value decodes one length-delimited value into p. It is looked up under site s.
func (d *decoder) value(f *field, s *site, p, old unsafe.Pointer, b []byte) error {
	switch f.kind {
	case stringKind:
		d.string(s, (*string)(p), (*string)(old), b)
		return nil
	case bytesKind:
		d.bytes((*[]byte)(p), (*[]byte)(old), b)
		return nil
	case timeKind, microTimeKind:
		return setTime(f.kind, p, b)
	case foreignKind:
		return d.foreign(f.typ, p, b)
	}
	return d.part(f, s, p, old, b)
}

// minPart is the size of the smallest message held by value that is worth a lookup.
const minPart = 24

// part decodes a message or Quantity into p, which is zero except in plain mode. If an equal one is
// in the table, it is copied. With a previous version, it is decoded field by field instead, to
// reuse what is equal.
func (d *decoder) part(f *field, s *site, p, old unsafe.Pointer, b []byte) error {
	if f.kind == quantityKind {
		return d.quantity(p, b)
	}
	if f == d.spec && d.sameSpec && d.depth == 1 {
		copyValue(f.typed, p, old)
		return nil
	}
	if old != nil {
		return d.build(f, p, old, b)
	}
	if !d.sharesValues() || len(b) < minPart || !s.shouldLookUp(b) {
		return d.build(f, p, nil, b)
	}
	found, hash, action := d.table.find(s, f.shape, f.layout, b)
	if found.value != nil {
		copyValue(f.typed, p, found.value)
		return nil
	}
	if action == decodeOnly {
		return d.build(f, p, nil, b)
	}
	outer := d.beginShared()
	if err := d.build(f, p, nil, b); err != nil {
		return err
	}
	stored := d.alloc(f.typ, f.size) // p is a place in the object, which the table must not keep in memory
	copyValue(f.typed, stored, p)
	d.endShared(outer, hash, f.shape, f.layout, b, stored, 1)
	return nil
}

// build decodes a message into p without looking it up.
func (d *decoder) build(f *field, p, old unsafe.Pointer, b []byte) error {
	if f.items {
		makeEmpty((*header)(p))
	}
	return d.message(d.plan(f), p, old, b)
}

// plan returns the plan of f's messages.
func (d *decoder) plan(f *field) *message {
	if f.sub == nil {
		return d.compiler.plan(f)
	}
	return f.sub
}

// pointer decodes a value that *holder points to.
func (d *decoder) pointer(f *field, holder, oldHolder *unsafe.Pointer, b []byte) error {
	if *holder != nil && f.kind != stringKind {
		return d.value(f, f.site, *holder, nil, b) // only in plain mode: messages merge
	}
	var old unsafe.Pointer
	if oldHolder != nil && *oldHolder != nil {
		if old = *oldHolder; d.matchValue(f, old, b, maxMatch) {
			*holder = old
			return nil
		}
	}
	if f.timeShaped && d.canDefer() {
		if p := d.arena.time(holder); p != nil {
			return d.value(f, f.site, p, nil, b)
		}
	}
	if !d.shares() || f.kind == foreignKind || !f.site.shouldLookUp(b) {
		*holder = d.alloc(f.typ, f.size)
		return d.target(f, *holder, old, b)
	}
	found, hash, action := d.table.find(f.site, f.wholeShape, f.layout, b)
	if found.value != nil {
		*holder = found.value
		return nil
	}
	if action == decodeOnly {
		*holder = d.alloc(f.typ, f.size)
		return d.target(f, *holder, old, b)
	}
	outer := d.beginShared()
	p := d.alloc(f.typ, f.size)
	if err := d.target(f, p, nil, b); err != nil {
		return err
	}
	*holder = p
	d.endShared(outer, hash, f.wholeShape, f.layout, b, p, 1)
	return nil
}

// target decodes the target of a pointer, which was already looked up.
func (d *decoder) target(f *field, p, old unsafe.Pointer, b []byte) error {
	switch f.kind {
	case stringKind:
		d.string(f.site, (*string)(p), nil, b)
		return nil
	case messageKind:
		return d.build(f, p, old, b)
	}
	return d.value(f, f.site, p, nil, b)
}

// beginShared begins a value for the table. Pass its result to endShared.
func (d *decoder) beginShared() (outer int) {
	outer, d.cost = d.cost, 0
	d.noDefer++
	d.tableDepth++
	return outer
}

// endShared adds the value to the table.
func (d *decoder) endShared(outer int, hash uint64, shape uint32, l *layout, b []byte, value unsafe.Pointer, n int) {
	d.table.add(hash, shape, l, b, value, n, d.cost)
	d.cost = outer
	d.noDefer--
	d.tableDepth--
}
