package json

import "unsafe"

// boxedString returns *s as an interface value that points to *s itself, where a conversion would allocate a copy of
// the string header. Nobody may write to *s afterwards. It relies on an interface being a pair of type and pointer.
func boxedString(s *string) any { return withPointer("", unsafe.Pointer(s)) }

// boxedList is boxedString for slices.
func boxedList(s *[]any) any { return withPointer([]any(nil), unsafe.Pointer(s)) }

func withPointer(v any, p unsafe.Pointer) any {
	(*[2]unsafe.Pointer)(unsafe.Pointer(&v))[1] = p
	return v
}

// box is a string header followed by the string's bytes.
type box[Bytes any] struct {
	header string
	bytes  Bytes
}

// boxed returns the decoded string raw as an interface value. If raw is short and plain, this takes
// one allocation instead of two.
func boxed(raw []byte) any {
	if !isPlain(raw) {
		return unquote(raw)
	}
	text := raw[1 : len(raw)-1]
	switch n := len(text); {
	case n == 0 || n > 80:
		return string(text)
	case n <= 8:
		return newBox[[8]byte](text)
	case n <= 16:
		return newBox[[16]byte](text)
	case n <= 32:
		return newBox[[32]byte](text)
	case n <= 48:
		return newBox[[48]byte](text)
	case n <= 64:
		return newBox[[64]byte](text)
	default:
		return newBox[[80]byte](text)
	}
}

// newBox puts text, which must fit into Bytes, into a box and returns its header as an interface value.
func newBox[Bytes any](text []byte) any {
	b := new(box[Bytes])
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&b.bytes)), len(text))
	copy(bytes, text)
	b.header = unsafe.String(&bytes[0], len(text))
	return boxedString(&b.header)
}

// listBox is a slice header followed by the slice's elements.
type listBox[Elements any] struct {
	header   []any
	elements Elements
}

// newList returns a slice of size elements for boxedList. If it is short, this takes one allocation instead of two.
func newList(size int) *[]any {
	switch size {
	case 1:
		return newListBox[[1]any](size)
	case 2:
		return newListBox[[2]any](size)
	case 3:
		return newListBox[[3]any](size)
	}
	list := make([]any, size)
	return &list
}

// newListBox makes a box for a slice of size elements; Elements must be an array of that length.
func newListBox[Elements any](size int) *[]any {
	b := new(listBox[Elements])
	b.header = unsafe.Slice((*any)(unsafe.Pointer(&b.elements)), size)
	return &b.header
}
