package proto

import (
	"errors"
	"unsafe"
)

var errDepth = errors.New("protobuf: messages are nested too deeply")

func (m *message) field(num int32) *field {
	if int(num) < len(m.fields) {
		return m.fields[num]
	}
	return nil
}

// message decodes b into the value at p, of type m.typ. In plain mode the value may already hold something.
//
// All the writing through unsafe pointers happens below here. It is safe because p always comes from an allocation of
// m.typ, or of a type that holds one at this place, and the offsets and types of the fields come from reflection
// on the same m.typ.
func (d *decoder) message(m *message, p unsafe.Pointer, b []byte) error {
	if d.depth++; d.depth > maxDepth {
		return errDepth
	}
	var seen uint64
	for i := 0; i < len(b); {
		num, wire, next, err := tag(b, i)
		if err != nil {
			return err
		}
		f := m.field(num)
		if f == nil || f.trim {
			if i, err = skip(b, i); err != nil {
				return err
			}
			continue
		}
		if bit := uint64(1) << f.index; seen&bit != 0 && !d.plain {
			return errIrregular
		} else {
			seen |= bit
		}
		if i, err = d.field(f, f.at(p), b, i, next, wire); err != nil {
			return err
		}
	}
	d.depth--
	return nil
}

// field decodes the field whose tag is at b[start:] and whose value is at b[i:] into p. It returns the index behind
// it, or behind the run of repeated ones that it begins.
func (d *decoder) field(f *field, p unsafe.Pointer, b []byte, start, i, wire int) (int, error) {
	switch f.form {
	case list:
		return d.list(f, p, b, start, i, wire)
	case mapping:
		return d.mapping(f, p, b, start, i, wire)
	}
	if f.isVarint() {
		if wire != varintWire {
			return 0, wrongWire(f, wire)
		}
		v, next, err := uvarint(b, i)
		if err != nil {
			return 0, err
		}
		if f.form == pointer {
			*(*unsafe.Pointer)(p) = d.newVarint(f, v)
		} else {
			setVarint(f.kind, p, v)
		}
		return next, nil
	}
	if wire != bytesWire {
		return 0, wrongWire(f, wire)
	}
	from, to, err := prefixed(b, i)
	if err != nil {
		return 0, err
	}
	if f.form == pointer {
		return to, d.pointer(f, (*unsafe.Pointer)(p), b[from:to])
	}
	return to, d.value(f, f.site, p, b[from:to])
}

// value decodes one value that is encoded as bytes into p. Its field is looked up under site.
func (d *decoder) value(f *field, s *site, p unsafe.Pointer, b []byte) error {
	switch f.kind {
	case stringKind:
		d.string(s, (*string)(p), b)
		return nil
	case bytesKind:
		d.bytes((*[]byte)(p), b)
		return nil
	case timeKind, microTimeKind:
		return setTime(f.kind, p, b)
	case foreignKind:
		return d.foreign(f.typ, p, b)
	}
	return d.part(f, s, p, b)
}

// minPart is the smallest message that is worth a lookup when it is held by value.
const minPart = 24

// part decodes a message or Quantity into p, where there is nothing yet unless in plain mode. Where an equal one is
// known, it is copied.
func (d *decoder) part(f *field, s *site, p unsafe.Pointer, b []byte) error {
	if !d.shares() || len(b) < minPart && f.kind != quantityKind || !s.wants(b) {
		return d.build(f, p, b)
	}
	e, hash, verdict := d.table.find(s, f.shape, b)
	if e != nil {
		copyValue(f.typ, p, e.value)
		return nil
	}
	if verdict == keep {
		return d.build(f, p, b)
	}
	outer := d.open()
	if err := d.build(f, p, b); err != nil {
		return err
	}
	stored := d.alloc(f.typ, f.size)
	copyValue(f.typ, stored, p)
	d.close(outer, hash, f.shape, b, stored, 1)
	return nil
}

// build decodes a message or Quantity into p without looking it up.
func (d *decoder) build(f *field, p unsafe.Pointer, b []byte) error {
	if f.kind == quantityKind {
		return d.quantity(p, b)
	}
	if f.items {
		makeEmpty((*header)(p))
	}
	return d.message(d.compiler.plan(f), p, b)
}

// pointer decodes a value that *holder points to.
func (d *decoder) pointer(f *field, holder *unsafe.Pointer, b []byte) error {
	if *holder != nil && f.kind != stringKind {
		return d.value(f, f.site, *holder, b) // only in plain mode: messages merge
	}
	if f.timeShaped && d.putsOff() {
		if p := d.arena.time(holder); p != nil {
			return d.value(f, f.site, p, b)
		}
	}
	if !d.shares() || !f.site.wants(b) {
		*holder = d.alloc(f.typ, f.size)
		return d.target(f, *holder, b)
	}
	e, hash, verdict := d.table.find(f.site, f.wholeShape, b)
	if e != nil {
		*holder = e.value
		return nil
	}
	if verdict == keep {
		*holder = d.alloc(f.typ, f.size)
		return d.target(f, *holder, b)
	}
	outer := d.open()
	p := d.alloc(f.typ, f.size)
	if err := d.target(f, p, b); err != nil {
		return err
	}
	*holder = p
	d.close(outer, hash, f.wholeShape, b, p, 1)
	return nil
}

// target decodes the value of a pointer, which was looked up already.
func (d *decoder) target(f *field, p unsafe.Pointer, b []byte) error {
	switch f.kind {
	case stringKind:
		d.string(f.site, (*string)(p), b)
		return nil
	case messageKind, quantityKind:
		return d.build(f, p, b)
	}
	return d.value(f, f.site, p, b)
}

// open begins a value that goes into the table. What it returns is to be given to close.
func (d *decoder) open() (outer int) {
	outer, d.cost = d.cost, 0
	d.storing++
	return outer
}

// close adds the value to the table.
func (d *decoder) close(outer int, hash uint64, shape uint32, b []byte, value unsafe.Pointer, n int) {
	d.table.add(hash, shape, b, value, n, d.cost)
	d.cost = outer
	d.storing--
}
