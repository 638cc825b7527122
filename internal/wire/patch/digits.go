package patch

import "encoding/hex"

// Much of what differs between objects are uids, hashes and numbers, of which a digit takes four bits.

const (
	// minDigits is from how many digits on it is worth to say that a text has no others, and MaxDigits how many one may have: a SHA-512 has so many.
	minDigits = 4
	MaxDigits = 128
	// uuidSize is the length of a uuid with its hyphens.
	uuidSize  = 36
	uuidBytes = 16
)

// Scratch is room for digits that are read.
type Scratch [MaxDigits]byte

// isDigit reports whether c is a digit. Capitals are none: they could not be told from the others later.
func isDigit(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }

// areDigits reports whether a text is to be packed as digits.
func areDigits(text []byte) bool {
	if len(text) < minDigits || len(text) > MaxDigits || len(text) == uuidSize { // which says that it is a uuid
		return false
	}
	for _, c := range text {
		if !isDigit(c) {
			return false
		}
	}
	return true
}

// uuidGroups are the lengths of the parts of a uuid, which have hyphens between them.
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

// appendDigits appends digits, two in a byte. If they are odd in number, the last byte has one.
func appendDigits(dst, text []byte) []byte {
	pairs := len(text) / 2 * 2
	dst, _ = hex.AppendDecode(dst, text[:pairs])
	if pairs < len(text) {
		dst, _ = hex.AppendDecode(dst, []byte{text[pairs], '0'})
	}
	return dst
}

// appendUUID appends the digits of a uuid.
func appendUUID(dst, text []byte) []byte {
	for _, n := range uuidGroups {
		dst, _ = hex.AppendDecode(dst, text[:n])
		text = text[min(n+1, len(text)):]
	}
	return dst
}

// digits reads, into scratch, what a text has in the place of a part of the base; see Text.
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

// packedSize returns how many bytes so many digits take.
func packedSize(n int) int {
	if n == uuidSize {
		return uuidBytes
	}
	return n/2 + n%2 // the sum cannot overflow
}

// putUUID appends the uuid with these digits, for which there is room.
func putUUID(text, packed []byte) {
	for _, n := range uuidGroups {
		if len(text) > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, packed[:n/2])
		packed = packed[n/2:]
	}
}
