package store

import (
	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/object"
)

// Neighbors decodes consecutive objects, such as those of a list, as patches of one of them, which
// takes half the time, and packs them so. Parts that an object has in common with its neighbors are
// shared by all of them, as when patches are opened. Only one goroutine at a time may use it.
type Neighbors[T object.Object] struct {
	folding  *folding[T]
	template *fold.Dictionary // nil until there is one
	base     T                // the decoded template
	uses     int              // of the base
}

// Neighbors returns a Neighbors for the store. Unless the codec is a Patcher, it decodes nothing.
func (s *Store[T]) Neighbors() *Neighbors[T] {
	n := &Neighbors[T]{}
	if folds := s.Snapshot().folds; folds != nil && folds.patcher != nil {
		n.folding = folds.folding
	}
	return n
}

// Decode decodes the encoding of an object, and returns false if the object has little in common
// with the one last passed to Follow. It keeps no reference to the bytes.
func (n *Neighbors[T]) Decode(encoded []byte) (o T, e Encoding, ok bool) {
	if n.template == nil {
		return o, e, false
	}
	packed, ok := n.template.Patch(n.folding.patcher.Diff, encoded)
	if !ok || !n.refresh() {
		return o, e, false
	}
	n.uses++
	return n.folding.decodePatch(n.base, packed)
}

// refresh decodes the template again once enough objects share its parts. It drops a template that cannot be decoded.
func (n *Neighbors[T]) refresh() (ok bool) {
	if n.uses < fold.TemplateUses {
		return true
	}
	base, err := n.folding.patcher.DecodeBase(n.template.Encoded())
	if err != nil || object.IsNil(base) {
		n.template = nil
		return false
	}
	n.base, n.uses = base, 0
	return true
}

// Follow makes an object, decoded from these bytes, the one that the next objects are compared
// with, and returns it as a patch of itself. If objects cannot be compared with it, Follow returns
// false and the previous one stays. It keeps no reference to the bytes.
func (n *Neighbors[T]) Follow(o T, encoded []byte) (e Encoding, ok bool) {
	if n.folding == nil || !fold.CanBeTemplate(encoded) {
		return e, false
	}
	template := fold.NewTemplate(encoded)
	if e.packed, ok = template.Patch(n.folding.patcher.Diff, encoded); ok {
		n.template, n.base, n.uses = template, o, 0
	}
	return e, ok
}

// decodePatch decodes an object that was just packed as a patch.
func (f *folding[T]) decodePatch(base T, packed fold.Packed) (o T, e Encoding, ok bool) {
	_, patch, ok, err := packed.Patch()
	if !ok || err != nil {
		return o, e, false
	}
	if o, err = f.patcher.DecodePatch(base, patch); err != nil || object.IsNil(o) {
		return o, e, false
	}
	return o, Encoding{packed: packed}, true
}
