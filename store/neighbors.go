package store

import (
	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/object"
)

// Neighbors decodes objects that come one after the other, such as those of a list: as what differs from one of them, which takes half the time, and packs
// them so. What an object has in common with its neighbors becomes a part of all of these, as it does when patches are opened. It is used by one goroutine
// at a time.
type Neighbors[T object.Object] struct {
	folding  *folding[T]
	template *fold.Dictionary // nil until there is one
	base     T                // what it was decoded to
	uses     int              // of the base
}

// Neighbors returns a Neighbors for the store. Without a codec that knows patches it decodes nothing.
func (s *Store[T]) Neighbors() *Neighbors[T] {
	n := &Neighbors[T]{}
	if folds := s.Snapshot().folds; folds != nil && folds.patcher != nil {
		n.folding = folds.folding
	}
	return n
}

// Decode decodes what the store's Codec decodes to an object, and returns false if that has little in common with the one that Follow was told of last.
// It keeps no reference to the bytes.
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

// refresh decodes the template again when the object that it was decoded to has become a part of enough others. A template that cannot be decoded is given up.
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

// Follow makes an object, which was decoded from these bytes, the one that the next are compared with, and returns it as a patch of itself. It returns false
// if none can be compared with it; the next are compared with the same as before then. It keeps no reference to the bytes.
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

// decodePatch decodes an object that has just been packed as a patch.
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
