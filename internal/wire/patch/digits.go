package patch

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

const digits = "0123456789abcdef"

// values has the value of each digit, and noDigit for other bytes.
var values = func() (values [256]byte) {
	for i := range values {
		values[i] = noDigit
	}
	for i := range digits {
		values[digits[i]] = byte(i)
	}
	return values
}()

const noDigit = 0x10

// areDigits reports whether a text is to be packed as digits.
func areDigits(text []byte) bool {
	if len(text) < minDigits || len(text) > MaxDigits || len(text) == uuidSize { // which says that it is a uuid
		return false
	}
	for _, c := range text {
		if values[c] == noDigit {
			return false
		}
	}
	return true
}

// isHyphen reports whether a uuid has a hyphen at i.
func isHyphen(i int) bool { return i == 8 || i == 13 || i == 18 || i == 23 }

func isUUID(text []byte) bool {
	if len(text) != uuidSize {
		return false
	}
	for i, c := range text {
		if isHyphen(i) != (c == '-') || c != '-' && values[c] == noDigit {
			return false
		}
	}
	return true
}

// appendDigits appends digits, two in a byte. If they are odd in number, the last byte has one.
func appendDigits(dst, text []byte) []byte {
	for ; len(text) > 1; text = text[2:] {
		dst = append(dst, values[text[0]]<<4|values[text[1]])
	}
	if len(text) > 0 {
		dst = append(dst, values[text[0]]<<4)
	}
	return dst
}

// appendUUID appends the digits of a uuid.
func appendUUID(dst, text []byte) []byte {
	for i := 0; i < uuidSize; i += 2 {
		if isHyphen(i) {
			i++
		}
		dst = append(dst, values[text[i]]<<4|values[text[i+1]])
	}
	return dst
}

// Digits reads, into scratch, what a text has in the place of a part of the base; see Text.
func (r *Reader) digits(base int, scratch *Scratch) (before, behind int, between []byte) {
	before, behind = r.number(), r.number()
	n := r.number()
	packed := r.take(packedSize(n))
	if n > MaxDigits || before > base || behind > base-before || packed == nil {
		r.Fail()
		return 0, 0, nil
	}
	between = scratch[:n]
	if n == uuidSize {
		readUUID(between, packed)
		return before, behind, between
	}
	for i := range between {
		between[i] = digits[packed[i/2]>>(4*(1-i%2))&15]
	}
	return before, behind, between
}

// packedSize returns how many bytes so many digits take.
func packedSize(n int) int {
	if n == uuidSize {
		return uuidBytes
	}
	return (n + 1) / 2
}

func readUUID(text, packed []byte) {
	for i, k := 0, 0; i < uuidSize; i, k = i+2, k+1 {
		if isHyphen(i) {
			text[i] = '-'
			i++
		}
		text[i], text[i+1] = digits[packed[k]>>4], digits[packed[k]&15]
	}
}
