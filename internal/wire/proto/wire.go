package proto

import (
	"errors"
	"fmt"
	"io"
)

// The wire types of protobuf.
const (
	varintWire     = 0
	fixed64Wire    = 1
	bytesWire      = 2
	startGroupWire = 3
	endGroupWire   = 4
	fixed32Wire    = 5
)

var (
	errOverflow    = errors.New("protobuf: a varint is longer than 64 bits")
	errLength      = errors.New("protobuf: a length is negative")
	errEndGroup    = errors.New("protobuf: a group ends that was not begun")
	errFieldNumber = errors.New("protobuf: a field number is not positive")
)

// uvarint reads the varint at b[i:] and returns it with the index after it. As in the generated code, ten bytes are
// allowed and bits beyond the 64th are dropped.
func uvarint(b []byte, i int) (uint64, int, error) {
	var v uint64
	for shift := uint(0); shift < 64; shift += 7 {
		if i >= len(b) {
			return 0, i, io.ErrUnexpectedEOF
		}
		c := b[i]
		i++
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v, i, nil
		}
	}
	return 0, i, errOverflow
}

// prefixed reads the length at b[i:] and returns the bounds of the bytes that follow it.
func prefixed(b []byte, i int) (start, end int, err error) {
	var v uint64
	if i < len(b) && b[i] < 0x80 {
		v, i = uint64(b[i]), i+1
	} else if v, i, err = uvarint(b, i); err != nil {
		return 0, 0, err
	}
	n := int(v)
	if n < 0 {
		return 0, 0, errLength
	}
	if n > len(b)-i {
		return 0, 0, io.ErrUnexpectedEOF
	}
	return i, i + n, nil
}

// tag reads a tag at b[i:].
func tag(b []byte, i int) (num int32, wire int, next int, err error) {
	var v uint64
	if b[i] < 0x80 {
		v, next = uint64(b[i]), i+1
	} else if v, next, err = uvarint(b, i); err != nil {
		return 0, 0, 0, err
	}
	num, wire = int32(v>>3), int(v&7)
	if wire == endGroupWire {
		return 0, 0, 0, errEndGroup
	}
	if num <= 0 {
		return 0, 0, 0, errFieldNumber
	}
	return num, wire, next, nil
}

// skip returns the index after the field whose tag is at b[i:]. Groups are skipped with their
// content, without recursion.
func skip(b []byte, i int) (int, error) {
	for depth := 0; ; {
		v, next, err := uvarint(b, i)
		if err != nil {
			return 0, err
		}
		i = next
		switch wire := v & 7; wire {
		case varintWire:
			if _, i, err = uvarint(b, i); err != nil {
				return 0, err
			}
		case fixed64Wire:
			i += 8
		case bytesWire:
			if _, i, err = prefixed(b, i); err != nil {
				return 0, err
			}
		case startGroupWire:
			depth++
		case endGroupWire:
			if depth == 0 {
				return 0, errEndGroup
			}
			depth--
		case fixed32Wire:
			i += 4
		default:
			return 0, fmt.Errorf("protobuf: there is no wire type %d", wire)
		}
		if i > len(b) {
			return 0, io.ErrUnexpectedEOF
		}
		if depth == 0 {
			return i, nil
		}
	}
}

// run finds the run of fields with the same tag. The tag of the first is b[start:i]. It returns
// their number and the index after the last. A run ends before a malformed field; if the first one
// is malformed, run returns the error.
func run(b []byte, start, i int) (n, end int, err error) {
	for width := i - start; ; i = end + width {
		_, next, err := prefixed(b, i)
		if err != nil {
			if n == 0 {
				return 0, 0, err
			}
			return n, end, nil
		}
		n, end = n+1, next
		if len(b)-end < width || b[end] != b[start] || string(b[end:end+width]) != string(b[start:start+width]) {
			return n, end, nil
		}
	}
}

func wrongWire(f *field, wire int) error {
	return fmt.Errorf("protobuf: wire type %d does not fit the field %s", wire, f.path())
}
