package engine

import (
	"slices"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// With a budget, a part decodes new states relative to folded ones, and keeps what objects were decoded from until they
// are in the store, so that folding them does not encode them again.

// beforeFolded is before for a folded object, which it opens if that pays.
func (p *part[T]) beforeFolded(held *store.Held[T]) (was before[T]) {
	o, open := held.Open()
	switch {
	case !p.inf.memory.HasStableEncoding(): // the decoder makes no use of it
		return was
	case !open && !p.inf.wantsObjects(): // opening it takes longer than it saves
		return was
	case !open:
		o, was.data = p.inFlight.open(held, p.inf.memory.FoldsAtOnce())
	}
	p.inFlight.keepOpen(o)
	was.object = o
	return was
}

// beforePatch prepares decoding a change of an object that is folded as a patch as another patch. It opens the object
// if a handler uses objects. It returns false if another way is better.
func (p *part[T]) beforePatch(key object.Key) (was before[T], ok bool) {
	if !p.inf.memory.PrefersPatches() {
		return was, false
	}
	held, ok := p.inf.store.Snapshot().LikelyHeld(key)
	if !ok || !held.IsPatch() {
		return was, false
	}
	if _, open := held.Open(); open {
		return was, false
	}
	if !p.inf.wantsObjects() {
		was.held = held
		return was, true
	}
	o := held.Object()
	own := object.KeyOf(o)
	if own != key { // LikelyHeld does not compare keys
		return was, false
	}
	was.object, was.held = o, held.Under(own)
	p.inFlight.keepOpen(o)
	return was, true
}

// keepsEncoding reports whether what an object is decoded from is worth keeping.
func (p *part[T]) keepsEncoding(e *intake.Encoded[T], was *before[T]) bool {
	memory := p.inf.memory
	return e.Exact && memory.HasStableEncoding() &&
		(memory.FoldsSoon(p.isListing(), p.inFlight.folds) || memory.FoldsAtOnce() && was.held.IsFolded())
}

// decodePatched decodes a new state of an object that is folded as a patch, and will be open, as if it were a patch of
// the same template. That takes less time than opening the state before and comparing with it.
func (p *part[T]) decodePatched(e *intake.Encoded[T], was *before[T]) (o T, err error) {
	w := &p.inFlight
	if w.data == nil {
		w.data = getBuffer()
	}
	*w.data = codec.AppendReceived((*w.data)[:0], e.Data)
	o, _, err = p.decodeNext(e, was, *w.data)
	return o, err
}

// decodeEncoding decodes an object that is likely to be folded soon, and keeps what it was decoded from. An object that
// resembles one that is folded already is decoded as a patch.
func (p *part[T]) decodeEncoding(e *intake.Encoded[T], was *before[T]) (r intake.Received[T], err error) {
	w := &p.inFlight
	if w.bytes == nil {
		w.bytes = getBuffer()
	}
	from := len(*w.bytes)
	*w.bytes = codec.AppendReceived(*w.bytes, e.Data)
	// Should the buffer grow, earlier encodings of the batch keep its old memory.
	state := arrived[T]{batch: w.batch, encoding: store.EncodingOf(slices.Clip((*w.bytes)[from:]))}
	var patch store.Encoding
	if p.isListing() {
		r.Object, patch, err = p.decodeNeighbor(e, was, (*w.bytes)[from:])
	} else {
		r.Object, patch, err = p.decodeNext(e, was, (*w.bytes)[from:])
	}
	if err != nil || !patch.IsZero() {
		*w.bytes, state.encoding = (*w.bytes)[:from], patch
	}
	if err == nil {
		w.states = append(w.states, state)
		r.State = &w.states[len(w.states)-1]
	}
	return r, err
}

// decodeNext decodes a new state of an object, as a patch of the same template as the one before if it resembles that.
func (p *part[T]) decodeNext(
	e *intake.Encoded[T], was *before[T], encoding []byte,
) (o T, patch store.Encoding, err error) {
	if o, patch, ok := was.held.DecodeNext(was.object, encoding); ok {
		return o, patch, nil
	}
	o, err = e.Decode(was.object, codec.Received(was.data))
	return o, patch, err
}

// decodeNeighbor decodes an object of a list, as a patch of an earlier one if it resembles that.
func (p *part[T]) decodeNeighbor(
	e *intake.Encoded[T], was *before[T], encoding []byte,
) (o T, patch store.Encoding, err error) {
	w := &p.inFlight
	if w.neighbors == nil {
		w.neighbors = p.inf.store.Neighbors()
	}
	if o, patch, ok := w.neighbors.Decode(encoding); ok {
		return o, patch, nil
	}
	if o, err = e.Decode(was.object, nil); err == nil {
		patch, _ = w.neighbors.Follow(o, encoding)
	}
	return o, patch, err
}
