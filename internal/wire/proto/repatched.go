package proto

import (
	"unsafe"

	"github.com/tidings/tidings/internal/wire/patch"
)

// What two patches make of one base is the same where their entries are the same. So an object need not be made of the base if there is another one
// already: most of what a change of it leaves as it is are the parts in which it differs from the base.

// reentries changes the message at p by the entries of r up to the next end. The message is a copy of what those of other have made of the one at base.
func (d *decoder) reentries(r, other *patch.Reader, m *message, p, base unsafe.Pointer) error {
	if d.depth++; d.depth > maxDepth {
		return errDepth
	}
	for last := int32(0); ; {
		is, action := r.Next()
		was, otherAction := other.Next()
		number := min(is, was)
		if number <= last { // what is put off must not be copied
			return patch.ErrBroken
		}
		last = number
		var err error
		switch {
		case number == patch.None:
			return d.endOf(r, other)
		case was < is:
			d.revert(other, m, p, base)
		case is < was:
			r.Entry()
			err = d.entry(r, m, number, p, action)
		case action == patch.Within && otherAction == patch.Within:
			err = d.reentriesWithin(r, other, m, p, base)
		case !r.SkipSame(other):
			d.revert(other, m, p, base)
			r.Entry()
			err = d.entry(r, m, number, p, action)
		}
		if err != nil {
			return err
		}
		if d.allowance < 0 {
			return errAllowance
		}
	}
}

// endOf reads the ends of the entries of both.
func (d *decoder) endOf(r, other *patch.Reader) error {
	r.Entry()
	other.Entry()
	d.depth--
	if err := r.Err(); err != nil {
		return err
	}
	return other.Err()
}

// revert makes a field of the message at whole, which the next entry of other has changed, that of the base.
func (d *decoder) revert(other *patch.Reader, m *message, whole, base unsafe.Pointer) {
	number, action := other.Entry()
	other.Skip(action)
	f := d.fieldOf(m, number)
	f.copy(unsafe.Add(whole, f.offset), unsafe.Add(base, f.offset))
}

// reentriesWithin changes the message in a field of the one at whole, where both have entries.
func (d *decoder) reentriesWithin(r, other *patch.Reader, m *message, whole, base unsafe.Pointer) error {
	number, _ := r.Next()
	f := d.fieldOf(m, number)
	p, from := unsafe.Add(whole, f.offset), unsafe.Add(base, f.offset)
	switch {
	case !f.isMessage():
		return patch.ErrBroken
	case f.op == pointerOp:
		if r.SkipSame(other) {
			return nil
		}
		holder := (*unsafe.Pointer)(p)
		if p, from = *holder, *(*unsafe.Pointer)(from); p == nil || from == nil {
			return patch.ErrBroken
		}
		p = cloneValue(f.typed, p)
		*holder = p
	case f.op != valueOp:
		return patch.ErrBroken
	}
	r.Entry()
	other.Entry()
	return d.reentries(r, other, d.plan(f), p, from)
}
