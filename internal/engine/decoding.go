package engine

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
)

// A part decodes the objects of a source that leaves that to it. It looks once at what the store has of an object: an
// unchanged one is not decoded, and not even opened if it is part of a list; a new state is decoded relative to the one
// before.

// inFlight is what a part knows of objects between decoding them and putting them into the store. It is used on the
// reflector's goroutine.
type inFlight[T object.Object] struct {
	// states are those of the objects that are handed on together. The encodings of those that are not patches are
	// in bytes, concatenated; bytes is nil between batches. batch is the number of the batch that bytes belongs to.
	states []arrived[T]
	bytes  *[]byte
	batch  uint64
	// data is for the encoding of a previous state; nil between batches.
	data      *[]byte
	neighbors *store.Neighbors[T] // decodes lists while the budget is tight
	// folds says that the list being read is folded as it streams, including everything still to come.
	folds bool
	// opened keeps objects open that were opened for the changes of a batch, so that handlers get the same ones.
	opened []T
	// leftOut has the types of those changes of a batch that the transform leaves out, by index,
	// and 0 for the others; nil if there are none.
	leftOut []object.DeltaType
}

// arrived is the intake.State of an object: what the store has of it if it is unchanged, or else what it was decoded
// from, as long as the batch lasts.
type arrived[T object.Object] struct {
	held     store.Held[T]
	encoding store.Encoding
	batch    uint64
}

func (a *arrived[T]) Key() object.Key         { return a.held.Key() }
func (a *arrived[T]) UID() types.UID          { return a.held.UID() }
func (a *arrived[T]) ResourceVersion() string { return a.held.ResourceVersion() }

// maxOpenedInFlight bounds the objects that are kept open for changes that have not come yet: those of a plain source
// may never come.
const maxOpenedInFlight = 1024

// isListing reports whether a list is being read, for which no previous states are needed.
func (p *part[T]) isListing() bool { return p.reflector.Phase() != reflector.Watching }

// before is what is known of the state of an object before the one that arrives.
type before[T object.Object] struct {
	// object is the zero T if it is not worth opening. data is what it was decoded from; nil if that is not known.
	object T
	data   []byte
	// held is set if the state is folded and was not opened: if a list brings the same one, that is all it takes. Or it
	// is a patch, and the new state may be one, too.
	held store.Held[T]
}

// before looks up the state of an object in the store. exact is Encoded.Exact of what arrives.
func (p *part[T]) before(key object.Key, exact bool) (was before[T]) {
	if p.isListing() {
		return p.beforeList(key)
	}
	if exact {
		if was, ok := p.beforePatch(key); ok {
			return was
		}
	}
	held, ok := p.inf.store.Snapshot().Held(key)
	if !ok {
		return was
	}
	if held.IsFolded() {
		return p.beforeFolded(&held)
	}
	was.object, _ = held.Open()
	return was
}

// beforeList is before for an object of a list, for which nothing is opened.
func (p *part[T]) beforeList(key object.Key) (was before[T]) {
	if p.inf.guard.found.Load() > 0 { // the list puts right what was written to
		return was
	}
	held, ok := p.inf.store.Snapshot().Held(key)
	if !ok {
		return was
	}
	o, open := held.Open()
	if open {
		was.object = o
	} else {
		was.held = held
	}
	return was
}

// previous returns the object that the store holds, for sources that decode by themselves to compare with what comes.
func (p *part[T]) previous(key object.Key) (T, bool) {
	was := p.before(key, true)
	return was.object, !object.IsNil(was.object)
}

// keepOpen keeps an object open until the batch is delivered, unless too many others are opened first.
func (w *inFlight[T]) keepOpen(o T) {
	if len(w.opened) >= 2*maxOpenedInFlight { // the oldest will not come
		w.opened = slices.Delete(w.opened, 0, maxOpenedInFlight)
	}
	w.opened = append(w.opened, o)
}

// open opens a folded object, and returns what it was decoded from; nil if somebody else opened it meanwhile. That is
// valid until the next call. A next state that is to be open may share its strings: it must not be opened alone then.
func (w *inFlight[T]) open(held *store.Held[T], alone bool) (o T, data []byte) {
	if w.data == nil {
		w.data = getBuffer()
	}
	if o, data = held.ObjectFrom(*w.data, alone); data != nil {
		*w.data = data
	}
	return o, data
}

// Begin implements intake.Decoder: what came before is in the store, or will not come.
func (p *part[T]) Begin() { p.inFlight.forgetStates() }

// Decode implements intake.Decoder.
func (p *part[T]) Decode(e *intake.Encoded[T]) (r intake.Received[T], err error) {
	var was before[T]
	if e.Reuse {
		was = p.before(e.Key, e.Exact)
	}
	if !object.IsNil(was.object) {
		switch uid := was.object.GetUID(); {
		case uid != e.UID:
			was = before[T]{}
		case e.Is(uid, was.object.GetResourceVersion()):
			return intake.Received[T]{Object: was.object, Unchanged: true}, nil
		}
	} else if p.isListing() && was.held.IsFolded() && e.Is(was.held.UID(), was.held.ResourceVersion()) {
		return intake.Received[T]{Unchanged: true, State: p.inFlight.unchanged(&was.held)}, nil
	}
	switch {
	case p.keepsEncoding(e, &was):
		return p.decodeEncoding(e, &was)
	case e.Exact && was.held.IsPatch() && !p.isListing():
		r.Object, err = p.decodePatched(e, &was)
		return r, err
	}
	r.Object, err = e.Decode(was.object, codec.Received(was.data))
	return r, err
}

// unchanged returns the state of a listed object that the store has, folded.
func (w *inFlight[T]) unchanged(held *store.Held[T]) *arrived[T] {
	w.states = append(w.states, arrived[T]{held: held.Under(held.Key().Clone())})
	return &w.states[len(w.states)-1]
}

// encodingOf returns what an object was decoded from, zero if that is not known.
func (w *inFlight[T]) encodingOf(state intake.State) (e store.Encoding) {
	if a, ok := state.(*arrived[T]); ok && a.batch == w.batch {
		return a.encoding
	}
	return e
}

// heldBy returns the state that the store has of an unchanged object, or false if the object has it.
func heldBy[T object.Object](unchanged bool, state intake.State) (held store.Held[T], ok bool) {
	if a, known := state.(*arrived[T]); known && unchanged {
		return a.held, true
	}
	return held, false
}

// bufferPool are buffers for encoded objects: a program may have many informers, few of which
// receive something at a time.
var bufferPool = sync.Pool{New: func() any { return new([]byte) }}

// getBuffer returns an empty buffer.
func getBuffer() *[]byte {
	b := bufferPool.Get().(*[]byte)
	*b = (*b)[:0]
	return b
}

// maxKeptBytes bounds the buffers kept for other batches, maxKeptStates the room for states.
const maxKeptBytes, maxKeptStates = 512 << 10, 64

// putBuffer returns a buffer, or nil, to the pool.
func putBuffer(b *[]byte) {
	if b != nil && cap(*b) <= maxKeptBytes {
		bufferPool.Put(b)
	}
}

// delivered forgets everything about a batch of changes, and about a list before it.
func (w *inFlight[T]) delivered() {
	w.applied()
	w.forgetStates()
}

// applied forgets everything about changes or a list, except unchanged states, which following changes may still use.
func (w *inFlight[T]) applied() {
	w.batch++ // the encodings are not valid any more
	clear(w.opened)
	w.opened = w.opened[:0]
	putBuffer(w.bytes)
	putBuffer(w.data)
	w.bytes, w.data, w.neighbors, w.leftOut = nil, nil, nil, nil
}

// forgetStates forgets the states of all objects.
func (w *inFlight[T]) forgetStates() {
	if clear(w.states); cap(w.states) > maxKeptStates {
		w.states = nil
	}
	w.states = w.states[:0]
	if w.bytes != nil {
		*w.bytes = (*w.bytes)[:0]
	}
}

// leaveOut records that the transform leaves out the i-th of n changes, which has this type.
func (w *inFlight[T]) leaveOut(i, n int, t object.DeltaType) {
	if w.leftOut == nil {
		w.leftOut = make([]object.DeltaType, n)
	}
	w.leftOut[i] = t
}

// resolve opens the objects of unchanged states, in changes that came together with the end of a list.
func resolve[T object.Object](changes []intake.Change[T]) {
	for i := range changes {
		if held, ok := heldBy[T](changes[i].Unchanged, changes[i].State); ok {
			changes[i].Object = held.Object()
		}
	}
}
