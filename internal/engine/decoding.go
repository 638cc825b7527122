package engine

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/store"
)

// A part decodes the objects of a source that leaves that to it. It looks once at what the store has of an object: an
// unchanged one is not decoded, and not even opened if it is part of a list; a new state is decoded relative to the one
// before. With a budget, the part keeps what objects were decoded from until they are in the store, so that folding
// them does not encode them again.

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

// before looks up the state of an object in the store.
func (p *part[T]) before(key object.Key) (was before[T]) {
	if p.isListing() {
		return p.beforeList(key)
	}
	if was, ok := p.beforePatch(key); ok {
		return was
	}
	held, ok := p.inf.store.Snapshot().Held(key)
	if !ok {
		return was
	}
	o, open := held.Open()
	switch {
	case open && !held.IsFolded():
		was.object = o
		return was
	case !p.inf.budget.hasStableEncoding(): // the decoder makes no use of it
		return was
	case !open && !p.inf.wantsObjects(): // opening it takes longer than it saves
		return was
	case !open:
		o, was.data = p.inFlight.open(&held)
	}
	p.inFlight.keepOpen(o)
	was.object = o
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

// beforePatch prepares decoding a change of an object that is folded as a patch as another patch. It opens the object
// if a handler uses objects. It returns false if another way is better.
func (p *part[T]) beforePatch(key object.Key) (was before[T], ok bool) {
	if !p.inf.budget.hasStableEncoding() || !p.inf.budget.memory.IsMostlyUsed() {
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
	if own != key {
		return was, false
	}
	was.object, was.held = o, held.Under(own)
	p.inFlight.keepOpen(o)
	return was, true
}

// previous returns the object that the store holds, for sources that decode by themselves to compare with what comes.
func (p *part[T]) previous(key object.Key) (T, bool) {
	was := p.before(key)
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
// valid until the next call.
func (w *inFlight[T]) open(held *store.Held[T]) (o T, data []byte) {
	if w.data == nil {
		w.data = getBuffer()
	}
	if o, data = held.ObjectFrom(*w.data); data != nil {
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
		was = p.before(e.Key)
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
	if e.Exact && p.inf.budget.hasStableEncoding() && (p.foldsSoon() || was.held.IsFolded()) {
		return p.decodeEncoding(e, &was)
	}
	r.Object, err = e.Decode(was.object, p.receivedData(was.data))
	return r, err
}

// unchanged returns the state of a listed object that the store has, folded.
func (w *inFlight[T]) unchanged(held *store.Held[T]) *arrived[T] {
	w.states = append(w.states, arrived[T]{held: held.Under(held.Key().Clone())})
	return &w.states[len(w.states)-1]
}

// receivedData returns what a source received in place of an encoding of the codec; nil if the encoding is.
func (p *part[T]) receivedData(data []byte) []byte {
	if len(data) == 0 {
		return nil
	}
	return p.inf.budget.codec.ReceivedData(data)
}

// foldsSoon reports whether the next objects are likely to be folded soon. For lists that starts
// earlier, because they may be large.
func (p *part[T]) foldsSoon() bool {
	m := p.inf.budget.memory
	if p.isListing() {
		return p.inFlight.folds || m.Used() > m.Bytes()/4
	}
	return m.Used() > m.Bytes()-2*m.Slack()
}

// decodeEncoding decodes an object that is likely to be folded soon, and keeps what it was decoded from. An object that
// resembles one that is folded already is decoded as a patch.
func (p *part[T]) decodeEncoding(e *intake.Encoded[T], was *before[T]) (r intake.Received[T], err error) {
	w := &p.inFlight
	if w.bytes == nil {
		w.bytes = getBuffer()
	}
	from := len(*w.bytes)
	*w.bytes = p.inf.budget.codec.AppendReceived(*w.bytes, e.Data)
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
	o, err = e.Decode(was.object, p.receivedData(was.data))
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

// hasStableEncoding reports whether objects of one version always have the same encoding, so that
// those of lists may be unchanged.
func (b *budgeted[T]) hasStableEncoding() bool {
	return b != nil && b.codec != nil && b.codec.Encoding() == "protobuf"
}
