package patch

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// None is the Number at the end of a message. It is above all numbers of fields.
const None = math.MaxInt32

// Number returns the number of the field that b begins with, None if b is empty, and 0 for what is no field. What makes patches and what applies them
// have to see the same fields, so both use this and FieldEnd.
func Number(b []byte) int32 {
	if len(b) > 0 && b[0] < 0x80 { // nearly all are like that
		return int32(b[0] >> 3)
	}
	return longNumber(b)
}

// longNumber is Number of what is not a tag of one byte.
func longNumber(b []byte) int32 {
	if len(b) == 0 {
		return None
	}
	number, _, width := protowire.ConsumeTag(b)
	if width < 0 || number == None {
		return 0
	}
	return int32(number)
}

// FieldEnd returns the index behind the field at b[i:], -1 if it is broken.
func FieldEnd(b []byte, i int) int {
	if i+1 < len(b) && b[i] >= 8 && b[i] < 0x80 && b[i+1] < 0x80 { // nearly all are like that
		switch protowire.Type(b[i] & 7) {
		case protowire.VarintType:
			return i + 2
		case protowire.BytesType:
			if end := i + 2 + int(b[i+1]); end <= len(b) {
				return end
			}
			return -1
		}
	}
	if _, _, length := protowire.ConsumeField(b[i:]); length >= 0 {
		return i + length
	}
	return -1
}

// runEnd returns where the fields with the number end that b begins with; before a broken one at the latest.
func runEnd(b []byte, number int32) int {
	for i := 0; ; {
		if Number(b[i:]) != number {
			return i
		}
		end := FieldEnd(b, i)
		if end < 0 {
			return i
		}
		i = end
	}
}
