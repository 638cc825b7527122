package proto

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/patch"
)

// differ is a decoder that is only used to compare encodings.
type differ struct{ *decoder }

// NewDiffer implements wire.Patcher.
func (dec *Decoder[T]) NewDiffer() wire.Differ {
	d, _ := newDecoder(dec.typ, wire.Options{NoSharing: true, Trim: dec.opts.Trim}) // New has checked the arguments
	return differ{d}
}

// Diff implements wire.Differ.
func (d differ) Diff(dst []byte, head int, base, data []byte, most int) ([]byte, bool) {
	if d.root == nil {
		return dst, false
	}
	m := patchBuilder{decoder: d.decoder, most: len(dst) + most}
	out := m.message(patch.AppendCount(dst, head), d.root, base[head:], data[head:], 0)
	if m.failed || len(out) > m.most {
		return dst, false
	}
	return out, true
}

// patchBuilder makes one patch.
type patchBuilder struct {
	*decoder
	most   int // maximum length of the result
	failed bool
}

// message appends the changes that turn a message of type m into another one, and the end.
func (d *patchBuilder) message(dst []byte, m *message, base, data []byte, depth int) []byte {
	was, is := patch.Number(base), patch.Number(data)
	for last := int32(0); was > last && is > last && len(dst) <= d.most && depth < maxMatch; {
		last = min(was, is)
		switch {
		case last == patch.None:
			return patch.AppendEnd(dst)
		case was < is:
			was, _, base = d.splitRun(base, was)
			dst = patch.AppendEntry(dst, last, patch.Drop)
		case is < was:
			run := fieldRun{}
			is, run, data = d.splitRun(data, is)
			dst = d.set(dst, last, run.fields)
		default:
			var before, run fieldRun
			if is, run, data = d.splitRun(data, is); is == 0 {
				break
			}
			if bytes.HasPrefix(base, run.fields) { // most runs: the base's need not be parsed
				if next := patch.Number(base[len(run.fields):]); next != last {
					if !d.fieldOf(m, last).isSelfContained(run.fields) {
						d.failed = true
						return dst
					}
					was, base = next, base[len(run.fields):]
					continue
				}
			}
			if was, before, base = d.splitRun(base, was); was == 0 {
				break
			}
			dst = d.field(dst, m, last, before, run, depth)
		}
	}
	d.failed = true // fields out of order, malformed, or too different
	return dst
}

// fieldRun is a run of fields with one number.
type fieldRun struct {
	fields []byte
	n      int
}

// splitRun splits the run of fields with this number off b. It returns the number of the next
// field, which is 0 if one is malformed.
func (d *patchBuilder) splitRun(b []byte, number int32) (next int32, run fieldRun, rest []byte) {
	for i := 0; ; {
		if i = patch.FieldEnd(b, i); i < 0 {
			return 0, run, nil
		}
		run.n++
		if next = patch.Number(b[i:]); next != number {
			run.fields = b[:i]
			return next, run, b[i:]
		}
	}
}

func (d *patchBuilder) set(dst []byte, number int32, run []byte) []byte {
	return patch.AppendBytes(patch.AppendEntry(dst, number, patch.Set), run)
}

// field appends an entry for a run of fields that has changed.
func (d *patchBuilder) field(dst []byte, m *message, number int32, before, run fieldRun, depth int) []byte {
	f, from := d.fieldOf(m, number), len(dst)
	switch {
	case f.op == listOp && (f.kind == stringKind || f.isMessage()):
		dst = d.list(patch.AppendEntry(dst, number, patch.List), f, before, run, depth)
	case before.n > 1 || run.n > 1:
	case f.op == stringOp || f.op == valueOp && f.kind == bytesKind:
		was, is := d.bodies(before, run)
		return patch.AppendSplice(dst, number, was, is)
	case f.isTime():
		tag, was, common := timeOf(before.fields)
		sameTag, is, alsoCommon := timeOf(run.fields)
		if common && alsoCommon && bytes.Equal(tag, sameTag) {
			return patch.AppendShift(dst, number, was, is)
		}
	case (f.op == valueOp || f.op == pointerOp) && f.isMessage():
		was, is := d.bodies(before, run)
		dst = d.message(patch.AppendEntry(dst, number, patch.Within), d.plan(f), was, is, depth+1)
	}
	// Nothing smaller than the run describes the change, or it takes more bytes than setting the run, with its header.
	if len(dst) == from || len(dst)-from > len(run.fields)+2 {
		return d.set(dst[:from], number, run.fields)
	}
	return dst
}

// timeOf splits a single field that holds a time in the common encoding, whose length and body take nine bytes.
func timeOf(field []byte) (tag []byte, seconds int64, common bool) {
	width := len(field) - 9
	if width < 1 || field[0]&7 != bytesWire || field[width] != 8 {
		return nil, 0, false
	}
	seconds, common = patch.Seconds(field[width+1:])
	return field[:width], seconds, common
}

// bodies returns the bodies of two single fields with the same number.
func (d *patchBuilder) bodies(before, run fieldRun) (was, is []byte) {
	width := d.tagWidth(before, run)
	was, _ = d.pop(before.fields, width)
	is, _ = d.pop(run.fields, width)
	return was, is
}

// tagWidth returns the width of the tag that both begin with. It must be the same tag, of length-delimited fields.
func (d *patchBuilder) tagWidth(before, run fieldRun) int {
	_, wire, width, err := tag(run.fields, 0)
	if err != nil || wire != bytesWire || !bytes.HasPrefix(before.fields, run.fields[:width]) {
		d.failed = true
	}
	return width
}

// pop splits off the first field, whose tag has this width, and returns its body. The next field
// must have the same tag, and lengths must be in their shortest form, because applying the patch
// writes them that way.
func (d *patchBuilder) pop(fields []byte, width int) (body, rest []byte) {
	if d.failed {
		return nil, nil
	}
	from, to, err := prefixed(fields, width)
	if err != nil || from-width != protowire.SizeVarint(uint64(to-from)) {
		d.failed = true
		return nil, nil
	}
	if rest = fields[to:]; len(rest) > 0 && !bytes.HasPrefix(rest, fields[:width]) {
		d.failed = true
	}
	return fields[from:to], rest
}

// list appends the elements of a list that differ from the base's elements at the same index, and the end.
func (d *patchBuilder) list(dst []byte, f *field, before, run fieldRun, depth int) []byte {
	width := d.tagWidth(before, run)
	dst = patch.AppendCount(dst, run.n)
	was, is := before.fields, run.fields
	for gap := 0; len(is) > 0 && !d.failed && len(dst) <= d.most; {
		var old, body []byte
		body, is = d.pop(is, width)
		if len(was) == 0 {
			dst = patch.AppendBytes(patch.AppendElement(dst, gap, patch.NewElement), body)
			gap = 0
			continue
		}
		old, was = d.pop(was, width)
		if bytes.Equal(old, body) {
			gap++
			continue
		}
		dst = d.element(dst, f, gap, old, body, depth)
		gap = 0
	}
	return patch.AppendEnd(dst)
}

func (d *patchBuilder) element(dst []byte, f *field, gap int, before, body []byte, depth int) []byte {
	if f.kind == stringKind {
		return patch.AppendText(patch.AppendElement(dst, gap, patch.SpliceElement), before, body)
	}
	from := len(dst)
	dst = d.message(patch.AppendElement(dst, gap, patch.WithinElement), d.plan(f), before, body, depth+1)
	if len(dst)-from > len(body)+2 {
		return patch.AppendBytes(patch.AppendElement(dst[:from], gap, patch.NewElement), body)
	}
	return dst
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
