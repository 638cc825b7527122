package proto

import (
	"bytes"
	"unsafe"
)

// update decodes b into the new value at p, of type m.typ, given the previous version and its
// encoding: old was decoded from was. Parts whose encoding is unchanged are reused without being
// compared, so that an update costs little more than the changed parts.
func (d *decoder) update(m *message, p, old unsafe.Pointer, b, was []byte) (err error) {
	if !isRegular(was) {
		return d.message(m, p, old, b)
	}
	if d.depth++; d.depth > maxDepth {
		return errDepth
	}
	var seen uint64
	for i := 0; i < len(b); {
		start := i
		num, wire, next, err := tag(b, i)
		if err != nil {
			return err
		}
		f := d.fieldOf(m, num)
		if f.op == skipOp {
			if i, err = skip(b, start); err != nil {
				return err
			}
			continue
		}
		if seen&f.bit != 0 {
			return errIrregular
		}
		seen |= f.bit
		if next < len(b) && b[next] == 0 && wire == int(f.zeroWire) {
			i = next + 1
			continue
		}
		u := fieldUpdate{f, unsafe.Add(p, f.offset), unsafe.Add(old, f.offset), nil}
		u.was, was = fieldOfBefore(was, num, b[start:next])
		if i, err = d.updateField(u, b, start, next, wire); err != nil {
			return err
		}
		if d.allowance < 0 {
			return errAllowance
		}
	}
	d.depth--
	return nil
}

// isRegular reports whether the fields of a message are in the order of their numbers, as servers
// write them, so that no number occurs in two places.
func isRegular(message []byte) bool {
	last, lastTag := int32(0), []byte(nil)
	for i := 0; i < len(message); {
		num, _, next, err := tag(message, i)
		if err != nil || num < last || num == last && !bytes.Equal(lastTag, message[i:next]) {
			return false
		}
		last, lastTag = num, message[i:next]
		if i, err = skip(message, i); err != nil {
			return false
		}
	}
	return true
}

// fieldOfBefore finds the field, or run of fields, with this tag in a regular message, and returns
// it with the rest of the message. It returns nil if there is none.
func fieldOfBefore(was []byte, num int32, encodedTag []byte) (field, rest []byte) {
	for len(was) > 0 {
		n, wire, next, err := tag(was, 0)
		if err != nil || n > num || n == num && (wire != bytesWire || !bytes.HasPrefix(was, encodedTag)) {
			return nil, was
		}
		if n < num {
			if next, err = skip(was, 0); err != nil {
				return nil, nil
			}
			was = was[next:]
			continue
		}
		_, end, err := run(was, 0, next)
		if err != nil {
			return nil, was
		}
		return was[:end], was[end:]
	}
	return nil, nil
}

// fieldUpdate is a field being decoded into the value at p, whose previous value is at old. was is
// its previous encoding, including tags; nil if there was none, or if it was not length-delimited.
type fieldUpdate struct {
	*field
	p, old unsafe.Pointer
	was    []byte
}

// updateField decodes the field whose tag is b[start:i], and returns the index after it.
func (d *decoder) updateField(u fieldUpdate, b []byte, start, i, wire int) (end int, err error) {
	switch {
	case u.op == varintOp || u.op == varintPointerOp:
		return d.varint(u.field, u.p, b, i, wire)
	case u.op == numbersOp:
		return d.numbers(u.field, u.p, u.old, b, start, i, wire)
	case u.isSame(b, start, i):
		u.copy(u.p, u.old)
		return start + len(u.was), nil
	case u.op == listOp && u.was != nil:
		return d.updateList(u, b, start, i)
	case u.op == listOp:
		return d.list(u.field, u.p, u.old, b, start, i, wire)
	case u.op == mapOp:
		return d.mapping(u.field, u.p, u.old, b, start, i, wire)
	}
	if from, to, ok := u.single(i - start); ok && wire == bytesWire && u.op == valueOp && u.isMessage() {
		bodyFrom, end, err := prefixed(b, i)
		if err != nil {
			return 0, err
		}
		return end, d.update(d.plan(u.field), u.p, u.old, b[bodyFrom:end], u.was[from:to])
	}
	return d.field(u.field, u.p, u.old, b, i, wire)
}

// isMessage reports whether the values of the field are messages with fields of their own.
func (f *field) isMessage() bool { return f.kind == messageKind && !f.items }

// isSame reports whether the encoding of the field, or run of fields, whose tag is b[start:i] is unchanged.
func (u *fieldUpdate) isSame(b []byte, start, i int) bool {
	if u.was == nil || u.kind == foreignKind || !bytes.HasPrefix(b[start:], u.was) {
		return false
	}
	if u.op == listOp || u.op == mapOp {
		return !bytes.HasPrefix(b[start+len(u.was):], b[start:i]) && u.isSelfContained(u.was)
	}
	return true
}

// isSelfContained reports whether the meaning of a run of fields depends on nothing after it. The
// key or value of a map entry, and the last of packed numbers, may extend into the fields that
// follow. Servers do not pack numbers, so any packed run counts as if it did.
func (f *field) isSelfContained(run []byte) bool {
	if f.op != mapOp && f.op != numbersOp {
		return true
	}
	for i := 0; i < len(run); {
		_, wire, from, err := tag(run, i)
		switch {
		case err != nil || f.op == numbersOp && wire != varintWire:
			return false
		case f.op == numbersOp:
			_, i, err = uvarint(run, from)
		default:
			if from, i, err = prefixed(run, from); err == nil {
				err = endsOfEntry(run[from:i])
			}
		}
		if err != nil {
			return false
		}
	}
	return true
}

// endsOfEntry returns an error if a part of a map entry extends beyond it. It parses the entry as mapEntry does.
func endsOfEntry(entry []byte) (err error) {
	for i := 0; i < len(entry) && err == nil; {
		v, next, broken := uvarint(entry, i)
		switch n := int32(v >> 3); {
		case broken != nil:
			return broken
		case n == 1 || n == 2:
			_, i, err = prefixed(entry, next)
		default:
			i, err = skip(entry, i)
		}
	}
	return err
}

// single returns the bounds of the value in was, after a tag of this width, and false if there is
// not exactly one value.
func (u *fieldUpdate) single(width int) (from, to int, ok bool) {
	if u.was == nil {
		return 0, 0, false
	}
	from, to, err := prefixed(u.was, width)
	return from, to, err == nil && to == len(u.was)
}

// updateList decodes the run of elements whose first tag is b[start:i]. Each is compared with the
// previous element at its index.
func (d *decoder) updateList(u fieldUpdate, b []byte, start, i int) (int, error) {
	n, end, err := run(b, start, i)
	if err != nil {
		return 0, err
	}
	slice, before := (*header)(u.p), (*header)(u.old)
	if err := d.extend(u.field, slice, n); err != nil {
		return 0, err
	}
	width := i - start
	was := u.was
	for k := range n {
		from, to, err := prefixed(b, i)
		if err != nil {
			return 0, err
		}
		at, old := unsafe.Add(slice.data, uintptr(k)*u.size), unsafe.Pointer(nil)
		var encoded []byte
		if len(was) > 0 && k < before.len {
			wasFrom, wasTo, _ := prefixed(was, width) // a run has no malformed field
			old, encoded, was = unsafe.Add(before.data, uintptr(k)*u.size), was[wasFrom:wasTo], was[wasTo:]
		}
		if err := d.updateElement(u.field, at, old, b[from:to], encoded); err != nil {
			return 0, err
		}
		i = to + width
	}
	return end, nil
}

// updateElement decodes b into an element at p. If old is not nil, it is the previous element at
// this index, decoded from was.
func (d *decoder) updateElement(f *field, p, old unsafe.Pointer, b, was []byte) error {
	switch {
	case old == nil || f.kind == foreignKind:
		return d.value(f, f.element, p, nil, b)
	case bytes.Equal(b, was):
		copyValue(f.typed, p, old)
		return nil
	case f.isMessage():
		return d.update(d.plan(f), p, old, b, was)
	}
	return d.value(f, f.element, p, old, b)
}
