package proto

import "unsafe"

const (
	// cacheLine is how much memory a processor loads at a time, on nearly all of them.
	cacheLine = 64
	// maxWarm bounds what is read ahead of one list.
	maxWarm = 2 << 10
)

// warmList is where objects have a list, and the size of its elements.
type warmList struct{ offset, size uintptr }

// warmLists returns the lists of root and of the messages in it.
func (d *decoder) warmLists(root *message) (lists []warmList) {
	if root == nil {
		return nil
	}
	for _, f := range root.fields {
		switch {
		case f == nil:
		case f.op == listOp:
			lists = append(lists, warmList{f.offset, f.size})
		case f.op == valueOp && f.kind == messageKind && !f.items:
			for _, in := range d.plan(f).fields {
				if in != nil && in.op == listOp {
					lists = append(lists, warmList{f.offset + in.offset, in.size})
				}
			}
		}
	}
	return lists
}

// warm reads from all over an object that is about to be compared. It was last used long ago, so that its memory comes slowly;
// asked for all at once it comes in the time of a few waits, where comparing would wait for one line after the
// other. That makes an event about a tenth cheaper.
func (d *decoder) warm(object unsafe.Pointer) {
	d.warmth += readLines(object, d.typ.Size())
	for _, l := range d.warmed {
		slice := (*header)(unsafe.Add(object, l.offset))
		d.warmth += readLines(slice.data, min(uintptr(slice.len)*l.size, maxWarm))
	}
}

// readLines reads a byte of each cache line of the n bytes at p. The sum means nothing, but keeps the compiler from leaving
// the reads out.
func readLines(p unsafe.Pointer, n uintptr) (sum byte) {
	for i := uintptr(0); i < n; i += cacheLine {
		sum += *(*byte)(unsafe.Add(p, i))
	}
	return sum
}
