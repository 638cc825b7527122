package proto

import (
	"unsafe"

	"github.com/tidings/tidings/internal/wire/patch"
)

// update returns the object that data encodes: a copy of the previous version, which was encoded as was, with what
// differs between the two encodings. So it costs little more than the changed parts. Encodings that no server writes
// are an error.
func (d *decoder) update(data []byte, previous unsafe.Pointer, was []byte) (unsafe.Pointer, error) {
	if d.root == nil {
		return nil, patch.ErrBroken
	}
	b := patchBuilder{decoder: d, most: len(data)}
	p := b.message(patch.AppendCount(d.difference[:0], 0), d.root, was, data, 0)
	if d.difference = p; cap(p) > keptBytes {
		d.difference = nil
	}
	if b.failed {
		return nil, patch.ErrBroken
	}
	return d.patched(previous, p, sibling{})
}
