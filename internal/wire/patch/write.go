package patch

import "encoding/binary"

// Action is what an entry does to a field of a message.
type Action uint8

// The actions.
const (
	End Action = iota
	Drop
	Set
	Within
	Splice
	List
	Shift
	Digits
)

// Change is what an entry does to an element of a list.
type Change uint8

// The changes.
const (
	EndList Change = iota
	WithinElement
	SpliceElement
	NewElement
)

// minShared is the shortest common prefix and suffix, together, that is worth encoding.
const minShared = 4

// AppendEntry appends the header of an entry. What follows depends on the action.
func AppendEntry(dst []byte, number int32, a Action) []byte {
	return binary.AppendUvarint(dst, uint64(number)<<3|uint64(a))
}

// AppendElement appends the header of a list element that follows gap unchanged ones.
func AppendElement(dst []byte, gap int, c Change) []byte {
	return binary.AppendUvarint(dst, uint64(gap)<<2|uint64(c))
}

// AppendEnd ends the entries of a message or the elements of a list.
func AppendEnd(dst []byte) []byte { return append(dst, 0) }

// AppendCount appends the number of elements of a list.
func AppendCount(dst []byte, n int) []byte { return binary.AppendUvarint(dst, uint64(n)) }

// AppendBytes appends b, prefixed with its length.
func AppendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// AppendText appends text as a change of base.
func AppendText(dst, base, text []byte) []byte {
	before, behind := shared(base, text)
	return appendText(dst, before, behind, text)
}

func appendText(dst []byte, before, behind int, text []byte) []byte {
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(before)), uint64(behind))
	return AppendBytes(dst, text[before:len(text)-behind])
}

// AppendSplice appends an entry that changes one string from base to text.
func AppendSplice(dst []byte, number int32, base, text []byte) []byte {
	before, behind := shared(base, text)
	switch between := text[before : len(text)-behind]; {
	case before+behind < uuidSize/2 && isUUID(text):
		dst = AppendEntry(dst, number, Digits)
		return appendUUID(append(dst, 0, 0, uuidSize), text)
	case areDigits(between):
		dst = AppendEntry(dst, number, Digits)
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(before)), uint64(behind))
		return appendDigits(binary.AppendUvarint(dst, uint64(len(between))), between)
	}
	return appendText(AppendEntry(dst, number, Splice), before, behind, text)
}

// AppendShift appends an entry that changes the seconds of a time.
func AppendShift(dst []byte, number int32, was, is int64) []byte {
	return binary.AppendVarint(AppendEntry(dst, number, Shift), is-was)
}

// stride is the number of bytes compared at once.
const stride = 32

// shared returns the lengths of the common prefix and suffix of base and text.
func shared(base, text []byte) (before, behind int) {
	for most := min(len(base), len(text)) - stride; before <= most && string(base[before:before+stride]) == string(text[before:before+stride]); {
		before += stride
	}
	for before < len(base) && before < len(text) && base[before] == text[before] {
		before++
	}
	for behind < len(base)-before && behind < len(text)-before && base[len(base)-1-behind] == text[len(text)-1-behind] {
		behind++
	}
	if before+behind < minShared {
		return 0, 0
	}
	return before, behind
}
