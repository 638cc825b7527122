package store

import (
	"iter"
	"reflect"
	"strings"
	"unsafe"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/tree"
	"github.com/tidings/tidings/object"
)

// Held is the state of an object in a store. It may be folded: its identity is known, but the
// object itself has to be opened. The zero value holds nothing.
type Held[T object.Object] struct {
	key     object.Key
	object  T // open; if folded is set, it may be the zero T
	folded  *folded[T]
	folding *folding[T]
}

// Key returns the key under which the store has the object.
func (h *Held[T]) Key() object.Key { return h.key }

// IsFolded reports whether the object has to be opened.
func (h *Held[T]) IsFolded() bool { return h.folded != nil }

// UID returns the object's uid without opening it.
func (h *Held[T]) UID() types.UID {
	if h.folded != nil {
		return h.folded.uidText()
	}
	return h.object.GetUID()
}

// ResourceVersion returns the object's version without opening it.
func (h *Held[T]) ResourceVersion() string {
	if h.folded != nil {
		return h.folded.versionText()
	}
	return h.object.GetResourceVersion()
}

// Open returns the object if it is open: in the store, or because somebody holds it.
func (h *Held[T]) Open() (T, bool) {
	if h.folded != nil {
		return h.folding.held(h.folded)
	}
	return h.object, true
}

// Object returns the object. If it cannot be opened, which Options.OnOpenError reports, the result
// has just a key, uid and version.
func (h *Held[T]) Object() T { return h.opened(false) }

// ObjectAlone is Object for readers of single objects in no order: see Codec.DecodeAlone.
func (h *Held[T]) ObjectAlone() T { return h.opened(true) }

// ObjectFrom is Object, or ObjectAlone, and also returns the encoding that the object was decoded from, in buf
// if it fits. That is nil if the object was open or cannot be opened.
func (h *Held[T]) ObjectFrom(buf []byte, alone bool) (o T, encoded []byte) {
	if h.folded == nil {
		return h.object, nil
	}
	o, encoded, ok := h.folding.openFrom(h.key, h.folded, buf[:0], alone)
	if !ok {
		return h.standIn(), nil
	}
	return o, encoded
}

// IsPatch reports whether the object is folded as a patch.
func (h *Held[T]) IsPatch() bool { return h.folded != nil && h.folded.packed.IsPatch() }

// DecodeNext decodes a later state of the object, if it IsPatch, as a patch of the same template.
// opened is the result of Object, not a stand-in, or the zero T if the object was not opened.
// Nobody may have written to opened, since the result shares parts with it. DecodeNext returns
// false if the states have little in common. It keeps no reference to the bytes.
func (h *Held[T]) DecodeNext(opened T, encoded []byte) (o T, e Encoding, ok bool) {
	unopened := object.IsNil(opened)
	if !h.IsPatch() || h.folding.patcher == nil || !unopened && !h.Is(opened) {
		return o, e, false
	}
	template, before, _, err := h.folded.packed.Patch()
	if err != nil {
		return o, e, false
	}
	base, ok := h.folding.base(h.folding.patcher, template, false)
	if !ok {
		return o, e, false
	}
	if e.packed, ok = h.folding.packer.PatchNear(encoded, template); !ok {
		return o, e, false
	}
	_, patch, _, err := e.packed.Patch()
	switch {
	case err != nil:
	case unopened:
		o, err = h.folding.patcher.DecodePatch(base, patch)
	default:
		o, err = h.folding.patcher.DecodeNextPatch(base, patch, opened, before)
	}
	if err != nil || object.IsNil(o) || object.KeyOf(o) != h.key {
		return o, e, false
	}
	if !unopened { // the key is that of this entry; without opened that is only likely
		e.before = unsafe.Pointer(h.folded)
	}
	return o, e, true
}

func (h *Held[T]) opened(single bool) T {
	if h.folded == nil {
		return h.object
	}
	if o, ok := h.folding.open(h.key, h.folded, single); ok {
		return o
	}
	return h.standIn()
}

// standIn returns a new object with only the key, uid and version of h. If a method of the type
// panics when it is to set them, they are missing.
func (h *Held[T]) standIn() (o T) {
	defer func() { _ = recover() }() // nobody who opens objects expects a panic
	o = reflect.New(h.folding.typ.Elem()).Interface().(T)
	o.SetNamespace(strings.Clone(h.key.Namespace)) // it may go to the user, who may write to it
	o.SetName(strings.Clone(h.key.Name))
	o.SetUID(h.UID())
	o.SetResourceVersion(h.ResourceVersion())
	return o
}

// Under returns h under k, an equal key in its own memory.
func (h *Held[T]) Under(k object.Key) Held[T] {
	return Held[T]{key: k, object: h.object, folded: h.folded, folding: h.folding}
}

// preferOpen returns the object, without opening it if h has it open.
func (h *Held[T]) preferOpen() T {
	if h.folded != nil && !isNone(h.object) {
		return h.object
	}
	return h.Object()
}

// Packed returns the packed object, or false if the object is open.
func (h *Held[T]) Packed() (fold.Packed, bool) {
	if h.folded == nil {
		return fold.Packed{}, false
	}
	return h.folded.packed, true
}

// Is reports whether the object is o itself, not just equal to it.
func (h *Held[T]) Is(o T) bool {
	open, ok := h.Open()
	return ok && any(open) == any(o)
}

// hold returns the state in a slot.
func (s *Snapshot[T]) hold(k object.Key, n tree.Slot) Held[T] {
	if s.folds != nil {
		if e := s.folds.at(n); e != nil {
			return Held[T]{key: k, folded: e, folding: s.folds.folding}
		}
	}
	return Held[T]{key: k, object: s.objects.Get(n)}
}

// Held returns the state of the object with the key, or false if there is none.
func (s *Snapshot[T]) Held(k object.Key) (Held[T], bool) {
	n, ok := s.slot(k)
	if !ok {
		return Held[T]{}, false
	}
	return s.hold(k, n), true
}

// LikelyHeld is Held without comparing the key of a folded object, which takes as long as opening
// it: the caller has to check the key of the opened object.
func (s *Snapshot[T]) LikelyHeld(k object.Key) (Held[T], bool) {
	n, ok := s.likely(k)
	if !ok {
		return s.Held(k)
	}
	return s.hold(k, n), true
}

// AllHeld iterates over the states of all objects, or those of one namespace, sorted by key.
func (s *Snapshot[T]) AllHeld(namespace string) iter.Seq[Held[T]] {
	return func(yield func(Held[T]) bool) {
		s.keys.Scan(tree.Within(namespace), func(it *tree.Item) bool { return yield(s.hold(it.Key, it.Slot)) })
	}
}

// HeldFrom iterates over the states of the objects from a key on, sorted by key.
func (s *Snapshot[T]) HeldFrom(k object.Key) iter.Seq[Held[T]] {
	return func(yield func(Held[T]) bool) {
		if s.keys == nil {
			return
		}
		cursor := tree.NewCursor(s.keys)
		for cursor.Seek(&tree.SortKey{Key: k}); !cursor.Done(); cursor.Next() {
			if it := cursor.Item(); !yield(s.hold(it.Key, it.Slot)) {
				return
			}
		}
	}
}
