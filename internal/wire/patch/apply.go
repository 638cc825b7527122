package patch

import (
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxDepth bounds the nesting of messages. API types nest about 15 deep.
const maxDepth = 100

// Apply appends to dst the result of applying patch p to base, at most size bytes, and returns the
// extended slice. The error is ErrBroken; dst is then returned unchanged, but the memory beyond its
// end may have been written to.
func Apply(dst, base, p []byte, size int) ([]byte, error) {
	r, head := NewReader(p)
	if head > len(base) {
		return dst, ErrBroken
	}
	a := applier{Reader: r, most: len(dst) + size}
	out := a.message(append(dst, base[:head]...), base[head:], 0)
	if err := r.Finish(); err != nil {
		return dst, err
	}
	return out, nil
}

// applier applies a patch to the encoding of its base.
type applier struct {
	*Reader
	most    int // maximum length of dst
	scratch Scratch
}

// append appends b, or fails if the result would be too long.
func (a *applier) append(dst, b []byte) []byte {
	if len(b) > a.most-len(dst) {
		a.Fail()
		return dst
	}
	return append(dst, b...)
}

// message appends the message base, changed by the entries up to the next end.
func (a *applier) message(dst, base []byte, depth int) []byte {
	if depth > maxDepth {
		a.Fail()
	}
	for last := int32(0); ; {
		number, action := a.Entry()
		if action == End {
			return a.append(dst, base)
		}
		from := find(base, number)
		if from < 0 || number <= last {
			a.Fail()
			return dst
		}
		last = number
		end := from + runEnd(base[from:], number)
		dst = a.append(dst, base[:from])
		dst = a.field(dst, base[from:end], number, action, depth)
		base = base[end:]
	}
}

// field appends a run of fields, which may be empty, changed by one entry.
func (a *applier) field(dst, run []byte, number int32, action Action, depth int) []byte {
	switch action {
	case Set:
		return a.append(dst, a.Fields(number))
	case Within, Splice, Digits, Shift:
		tag, body, rest := first(run)
		if tag == nil || len(rest) > 0 {
			a.Fail()
			return dst
		}
		return a.single(a.append(dst, tag), body, action, depth)
	case List:
		return a.list(dst, run, depth)
	}
	return dst
}

// single appends the body of a single field, changed by one entry, prefixed with its length.
func (a *applier) single(dst, body []byte, action Action, depth int) []byte {
	switch action {
	case Within:
		return a.within(dst, body, depth)
	case Shift:
		seconds, ok := Seconds(body)
		if !ok {
			a.Fail()
		}
		if seconds = a.Shifted(seconds); a.Err() != nil || len(dst)+1+timeSize > a.most {
			a.Fail()
			return dst
		}
		return appendTime(append(dst, timeSize), seconds)
	default:
		return a.spliced(dst, body, action)
	}
}

// spliced appends the string body, changed by one entry, prefixed with its length.
func (a *applier) spliced(dst, body []byte, action Action) []byte {
	before, behind, between := a.Spliced(action, len(body), &a.scratch)
	dst = binary.AppendUvarint(dst, uint64(before+len(between)+behind))
	return a.append(a.append(a.append(dst, body[:before]), between), body[len(body)-behind:])
}

// list appends a run of fields, changed by the elements up to the next end.
func (a *applier) list(dst, run []byte, depth int) []byte {
	tag, _, _ := first(run)
	if tag == nil {
		a.Fail()
		return dst
	}
	for left := a.Count(len(run)); a.Err() == nil; left-- {
		gap, change := a.Element()
		if change == EndList {
			gap = left
		}
		if gap > left {
			break
		}
		left -= gap
		for ; gap > 0; gap-- {
			_, body, rest := first(run)
			if body == nil {
				a.Fail()
				return dst
			}
			dst, run = a.append(dst, run[:len(run)-len(rest)]), rest
		}
		if change == EndList {
			return dst
		}
		if left == 0 {
			break
		}
		var body []byte
		if len(run) > 0 {
			_, body, run = first(run)
		}
		dst = a.element(dst, tag, body, change, depth)
	}
	a.Fail()
	return dst
}

// element appends a field with its tag and length. body is the element of the base, nil if there is none.
func (a *applier) element(dst, tag, body []byte, change Change, depth int) []byte {
	dst = a.append(dst, tag)
	switch {
	case change == NewElement:
		b := a.Bytes()
		return a.append(binary.AppendUvarint(dst, uint64(len(b))), b)
	case body == nil:
		a.Fail()
		return dst
	case change == SpliceElement:
		return a.spliced(dst, body, Splice)
	}
	return a.within(dst, body, depth)
}

// within appends the message body, changed by entries, prefixed with its length.
func (a *applier) within(dst, body []byte, depth int) []byte {
	from, width := len(dst), protowire.SizeVarint(uint64(len(body)))
	dst = slices.Grow(dst, width)[:from+width] // most lengths keep their width
	a.most += width - 1                        // a shorter length makes the result shorter
	dst = a.message(dst, body, depth+1)
	a.most -= width - 1
	n := len(dst) - from - width
	if now := protowire.SizeVarint(uint64(n)); now != width {
		dst = slices.Grow(dst, max(0, now-width))
		copy(dst[from+now:from+now+n], dst[from+width:from+width+n])
		dst = dst[:from+now+n]
	}
	binary.PutUvarint(dst[from:], uint64(n))
	return dst
}

// find returns the index of the first field whose number is at least this, or a negative one if b is not a message.
func find(b []byte, number int32) int {
	for i := 0; ; {
		n := Number(b[i:])
		if n >= number {
			return i
		}
		if i = FieldEnd(b, i); n == 0 || i < 0 {
			return -1
		}
	}
}

// first splits a run of length-delimited fields into the tag and body of the first, and the rest.
// The tag is nil if there is none.
func first(run []byte) (tag, body, rest []byte) {
	_, typ, width := protowire.ConsumeTag(run)
	if width < 0 || typ != protowire.BytesType {
		return nil, nil, nil
	}
	body, n := protowire.ConsumeBytes(run[width:])
	if n < 0 {
		return nil, nil, nil
	}
	return run[:width], body[:len(body):len(body)], run[width+n:]
}
