package patch

import "google.golang.org/protobuf/encoding/protowire"

// Nearly all times, those of the years 1978 to 3058, are encoded as five bytes of seconds and no
// nanoseconds. Only such times are shifted.
const (
	minSeconds, maxSeconds = 1 << 28, 1<<35 - 1
	timeSize               = 8
	secondsTag, nanosTag   = 1 << 3, 2 << 3
)

// Seconds returns the seconds of an encoded time in this range, and false for any other.
func Seconds(b []byte) (seconds int64, ok bool) {
	if len(b) != timeSize || b[0] != secondsTag || b[6] != nanosTag || b[7] != 0 || b[5] >= 0x80 || b[5] == 0 {
		return 0, false
	}
	if b[1]&b[2]&b[3]&b[4] < 0x80 {
		return 0, false
	}
	return int64(b[1]&0x7f) | int64(b[2]&0x7f)<<7 | int64(b[3]&0x7f)<<14 | int64(b[4]&0x7f)<<21 | int64(b[5])<<28, true
}

// appendTime appends the encoding of a time in this range.
func appendTime(dst []byte, seconds int64) []byte {
	dst = protowire.AppendVarint(append(dst, secondsTag), uint64(seconds))
	return append(dst, nanosTag, 0)
}

// Shifted reads a difference, adds it to seconds and returns the sum. Both must be in the range of such times.
func (r *Reader) Shifted(seconds int64) int64 {
	shifted := seconds + protowire.DecodeZigZag(r.uvarint())
	if seconds < minSeconds || seconds > maxSeconds || shifted < minSeconds || shifted > maxSeconds {
		r.Fail()
		return 0
	}
	return shifted
}
