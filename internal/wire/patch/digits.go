package patch

import "encoding/hex"

// Objects differ mostly in uids, hashes and numbers. A hexadecimal digit of these takes four bits.

const (
	// minDigits is the shortest text worth packing as digits; MaxDigits is the longest, the length of a SHA-512.
	minDigits = 4
	MaxDigits = 128
	// uuidSize is the length of a UUID with its hyphens.
	uuidSize  = 36
	uuidBytes = 16
)

// Scratch is a buffer for unpacked digits.
type Scratch [MaxDigits]byte

// isDigit reports whether c is a digit. Upper case is not, since unpacking could not restore it.
func isDigit(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }

// areDigits reports whether text can be packed as digits.
func areDigits(text []byte) bool {
	if len(text) < minDigits || len(text) > MaxDigits || len(text) == uuidSize { // this length marks a UUID
		return false
	}
	for _, c := range text {
		if !isDigit(c) {
			return false
		}
	}
	return true
}

// uuidGroups are the lengths of a UUID's hyphen-separated groups.
var uuidGroups = [...]int{8, 4, 4, 4, 12}

func isUUID(text []byte) bool {
	if len(text) != uuidSize {
		return false
	}
	for i, c := range text {
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !isDigit(c) {
				return false
			}
		}
	}
	return true
}

// appendDigits appends digits, two per byte. If their number is odd, the last byte holds one.
func appendDigits(dst, text []byte) []byte {
	pairs := len(text) / 2 * 2
	dst, _ = hex.AppendDecode(dst, text[:pairs])
	if pairs < len(text) {
		dst, _ = hex.AppendDecode(dst, []byte{text[pairs], '0'})
	}
	return dst
}

// appendUUID appends the digits of a UUID.
func appendUUID(dst, text []byte) []byte {
	for _, n := range uuidGroups {
		dst, _ = hex.AppendDecode(dst, text[:n])
		text = text[min(n+1, len(text)):]
	}
	return dst
}

// digits reads an entry with the action Digits; see Text. It unpacks into scratch.
func (r *Reader) digits(base int, scratch *Scratch) (before, behind int, between []byte) {
	before, behind = r.number(), r.number()
	n := r.number()
	packed := r.take(packedSize(n))
	if n > MaxDigits || before > base || behind > base-before || packed == nil {
		r.Fail()
		return 0, 0, nil
	}
	if n == uuidSize {
		putUUID(scratch[:0], packed)
	} else {
		hex.Encode(scratch[:], packed)
	}
	return before, behind, scratch[:n]
}

// packedSize returns how many bytes n digits take.
func packedSize(n int) int {
	if n == uuidSize {
		return uuidBytes
	}
	return n/2 + n%2 // the sum cannot overflow
}

// putUUID appends the UUID with these digits to text, which has room for it.
func putUUID(text, packed []byte) {
	for _, n := range uuidGroups {
		if len(text) > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, packed[:n/2])
		packed = packed[n/2:]
	}
}
