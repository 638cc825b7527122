package proto

import (
	"unsafe"

	"github.com/tidings/tidings/internal/wire/patch"
)

// Where the entries of two patches of the same base are equal, so are their results. So an object
// can be made from a previous one that was made from the same base, instead of from the base: most
// of what a change leaves alone are parts that differ from the base.

// repatchEntries changes the message at p by the entries of r up to the next end. The message is a
// copy of the result of other's entries on base.
func (d *decoder) repatchEntries(r, other *patch.Reader, m *message, p, base unsafe.Pointer) error {
	if d.depth++; d.depth > maxDepth {
		return errDepth
	}
	for last := int32(0); ; {
		is, action := r.Next()
		was, otherAction := other.Next()
		number := min(is, was)
		if number <= last { // a value with deferred parts must not be copied
			return patch.ErrBroken
		}
		last = number
		var err error
		switch {
		case number == patch.None:
			return d.readEnds(r, other)
		case was < is:
			d.revert(other, m, p, base)
		case is < was:
			r.Entry()
			err = d.entry(r, m, number, p, action)
		case action == patch.Within && otherAction == patch.Within:
			err = d.repatchWithin(r, other, m, p, base)
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

// readEnds reads the end of both patches' entries.
func (d *decoder) readEnds(r, other *patch.Reader) error {
	r.Entry()
	other.Entry()
	d.depth--
	if err := r.Err(); err != nil {
		return err
	}
	return other.Err()
}

// revert resets the field that the next entry of other has changed in the message at whole to that of the base.
func (d *decoder) revert(other *patch.Reader, m *message, whole, base unsafe.Pointer) {
	number, action := other.Entry()
	other.Skip(action)
	f := d.fieldOf(m, number)
	f.copy(unsafe.Add(whole, f.offset), unsafe.Add(base, f.offset))
}

// repatchWithin changes a message-typed field of the message at whole that both patches change.
func (d *decoder) repatchWithin(r, other *patch.Reader, m *message, whole, base unsafe.Pointer) error {
	number, _ := r.Next()
	f := d.fieldOf(m, number)
	p, from := unsafe.Add(whole, f.offset), unsafe.Add(base, f.offset)
	switch {
	case !f.isMessage():
		return patch.ErrBroken
	case f.op == pointerOp:
		if r.SkipSame(other) { // the target, which other objects may share, stays as it is
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
	return d.repatchEntries(r, other, d.plan(f), p, from)
}
