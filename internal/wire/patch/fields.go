package patch

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// None is the Number at the end of a message. It is above all field numbers.
const None = math.MaxInt32

// Number returns the number of the field at the start of b, None if b is empty, and 0 if there is
// no valid field. Making and applying patches must agree on the fields, so both use this and
// FieldEnd.
func Number(b []byte) int32 {
	if len(b) > 0 && b[0] < 0x80 { // nearly always
		return int32(b[0] >> 3)
	}
	return longNumber(b)
}

// longNumber is Number for anything but a tag of one byte.
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

// FieldEnd returns the index after the field at b[i:], or -1 if the field is malformed.
func FieldEnd(b []byte, i int) int {
	if i+1 < len(b) && b[i] >= 8 && b[i] < 0x80 && b[i+1] < 0x80 { // nearly always
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

// runEnd returns the end of the run of fields with this number at the start of b. The run ends
// before a malformed field.
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
