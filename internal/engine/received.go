package engine

import (
	"crypto/rand"
	"slices"
	"sync"
	"unsafe"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/store"
)

// inFlight tracks objects that the part's source has decoded, or was given, but has not handed out
// yet. The source handles them in order. It is used on the reflector's goroutine.
type inFlight[T object.Object] struct {
	// encodings are the encodings that objects were decoded from, recorded while the budget is
	// tight; those that are not patches are in bytes, concatenated. bytes is nil between batches.
	encodings decodedQueue[T]
	bytes     *[]byte
	neighbors *store.Neighbors[T] // decodes lists while the budget is tight
	// folds says that the list being read is folded as it streams, including everything still to come.
	folds bool
	// opened keeps objects open that were opened for the changes of a batch, so that handlers get the same ones.
	opened []T
	// previousObject is the previous state opened for the object that comes next. The new state is
	// decoded relative to before, or compared with data, the codec's encoding of previousObject.
	// data is nil between batches.
	previousObject T
	before         store.Held[T]
	data           *[]byte
	// leftOut has the types of those changes of a batch that the transform leaves out, by index,
	// and 0 for the others; nil if there are none.
	leftOut []object.DeltaType
	// standIns and olderStandIns are the states behind stand-ins, by key. The store may have lost a
	// state by the time its stand-in comes back, if it was edited by hand.
	standIns, olderStandIns map[object.Key]store.Held[T]
}

// encoded is what an object was decoded from: a patch, or bytes[from:to]. size is the number of bytes received.
type encoded struct {
	patch    store.Encoding
	from, to int
	size     int
}

// maxInFlight and maxInFlightBytes bound the objects that a source may handle before it hands out
// the first of them. A source reads only a part of that at a time; objects that it skips are never
// handed out.
const (
	maxInFlight      = 1024
	maxInFlightBytes = 2 << 20
)

// decodedQueue has objects in the order in which they are expected, each with what it was decoded from.
type decodedQueue[T object.Object] struct {
	objects []T
	encoded []encoded
	next    int // the first that may still come
	size    int // bytes received since it was last empty
}

// add appends an object.
func (h *decodedQueue[T]) add(o T, e encoded) {
	if len(h.objects)-h.next >= 2*maxInFlight { // the oldest were not handed out, and will not be
		h.objects, h.encoded = append([]T{}, h.objects[h.next+maxInFlight:]...), append([]encoded{}, h.encoded[h.next+maxInFlight:]...)
		h.next = 0
	}
	h.objects, h.encoded, h.size = append(h.objects, o), append(h.encoded, e), h.size+e.size
}

// take returns what an object that has come was decoded from, and forgets everything before it.
func (h *decodedQueue[T]) take(o T) (e encoded, ok bool) {
	for i := h.next; i < len(h.objects); i++ {
		if any(h.objects[i]) == any(o) {
			e = h.encoded[i]
			h.forget(i + 1)
			return e, true
		}
	}
	return e, false
}

// forget forgets everything before i.
func (h *decodedQueue[T]) forget(i int) {
	clear(h.objects[h.next:i])
	clear(h.encoded[h.next:i])
	if h.next = i; i == len(h.objects) {
		h.objects, h.encoded, h.next, h.size = h.objects[:0], h.encoded[:0], 0, 0
	}
}

// previous returns the object that the store holds, for the source to compare with what comes.
func (p *part[T]) previous(key object.Key) (T, bool) {
	p.inFlight.previousObject, p.inFlight.before = *new(T), store.Held[T]{}
	if p.isListing() && p.inf.guard.found.Load() > 0 { // a list puts right what was written to
		var none T
		return none, false
	}
	if o, ok := p.previousPatch(key); ok {
		return o, !object.IsNil(o)
	}
	held, ok := p.inf.store.Snapshot().Held(key)
	if !ok {
		var none T
		return none, false
	}
	o, open := held.Open()
	switch {
	case open && (!held.IsFolded() || p.isListing()):
		return o, true
	case !p.inf.budget.hasStableEncoding(): // the decoder makes no use of it
		return o, false
	case p.isListing():
		if !p.usesStandIns {
			return o, false
		}
		o = standInFor(&held)
		p.inFlight.standsFor(object.KeyOf(o), &held)
		return o, true
	case !open && !p.inf.wantsObjects(): // opening it takes longer than it saves
		return o, false
	case !open:
		o = p.inFlight.open(&held)
	}
	p.inFlight.keepOpen(o)
	return o, true
}

// previousPatch prepares decoding a change of an object that is folded as a patch as another patch.
// It opens the object if a handler uses objects, else the result is nil. It returns false if
// another way is better.
func (p *part[T]) previousPatch(key object.Key) (o T, ok bool) {
	if p.isListing() || !p.inf.budget.hasStableEncoding() || !p.inf.budget.memory.IsMostlyUsed() {
		return o, false
	}
	held, ok := p.inf.store.Snapshot().LikelyHeld(key)
	if !ok || !held.IsPatch() {
		return o, false
	}
	if _, open := held.Open(); open {
		return o, false
	}
	w := &p.inFlight
	if !p.inf.wantsObjects() {
		w.before = held.Under(key.Clone())
		return o, true
	}
	o = held.Object()
	own := object.KeyOf(o)
	if own != key {
		return o, false
	}
	w.previousObject, w.before = o, held.Under(own)
	w.keepOpen(o)
	return o, true
}

// keepOpen keeps an object open until the batch is delivered, unless too many others are opened first.
func (w *inFlight[T]) keepOpen(o T) {
	if len(w.opened) >= 2*maxInFlight { // the oldest were not handed out, and will not be
		w.opened = slices.Delete(w.opened, 0, maxInFlight)
	}
	w.opened = append(w.opened, o)
}

// open opens a folded object, and keeps what it was decoded from.
func (w *inFlight[T]) open(held *store.Held[T]) T {
	if w.data == nil {
		w.data = getBuffer()
	}
	o, data := held.ObjectFrom(*w.data)
	if w.previousObject, w.before = o, (store.Held[T]{}); data == nil { // somebody opened it meanwhile
		*w.data = (*w.data)[:0]
	} else {
		*w.data = data
	}
	return o
}

// previousData returns what the object just opened by previous was decoded from; nil if it was open already.
func (p *part[T]) previousData(o T) []byte {
	w := &p.inFlight
	if w.data == nil || len(*w.data) == 0 || w.before.IsFolded() || any(w.previousObject) != any(o) || object.IsNil(o) {
		return nil
	}
	return p.inf.budget.codec.ReceivedData(*w.data)
}

// isListing reports whether a list is being read, for which no previous states are needed.
func (p *part[T]) isListing() bool { return p.reflector.Phase() != reflector.Watching }

// A stand-in has the identity of a folded object. A source that finds that unchanged hands out the
// stand-in, so the object need not be opened. Only sources that use nothing else of it may get one:
// another could take it for the object, and filter or record it.

// standInMark marks a stand-in by its address. Its content is unguessable: an object with the same
// text could otherwise share the string in the decoder, and pass for unchanged.
var standInMark = "a stand-in " + rand.Text()

// supportsStandIns reports whether a source hands out results of Previous only if they are
// unchanged by uid and version, and uses nothing else of them.
func supportsStandIns[T object.Object](src source.ListerWatcher[T]) bool {
	if _, ok := src.(*source.HTTP[T]); ok {
		return true
	}
	of, ok := src.(interface{ HandsOnUnseen() bool }) // a source that wraps another one
	return ok && of.HandsOnUnseen()
}

func standInFor[T object.Object](held *store.Held[T]) T {
	o := held.StandIn()
	o.SetSelfLink(standInMark)
	return o
}

// unchanged returns the state that o stands in for, or false if o is an object itself.
func (p *part[T]) unchanged(o T) (held store.Held[T], ok bool) {
	if !p.usesStandIns || unsafe.StringData(o.GetSelfLink()) != unsafe.StringData(standInMark) {
		return held, false
	}
	key := object.KeyOf(o)
	if held, ok = p.inFlight.standIns[key]; ok {
		return held, true
	}
	if held, ok = p.inFlight.olderStandIns[key]; ok {
		return held, true
	}
	held, ok = p.inf.store.Snapshot().Held(key) // there were more stand-ins than remembered
	return held.Under(key), ok
}

// standsFor records the state behind the stand-in with this key.
func (w *inFlight[T]) standsFor(key object.Key, held *store.Held[T]) {
	if w.standIns == nil || len(w.standIns) >= maxInFlight {
		w.standIns, w.olderStandIns = w.olderStandIns, w.standIns
		clear(w.standIns)
	}
	if w.standIns == nil {
		w.standIns = make(map[object.Key]store.Held[T])
	}
	w.standIns[key] = held.Under(key)
}

// decode implements source.Decode: it records what an object is decoded from, if it is likely to be
// folded soon. An object that resembles one that is folded already is decoded as a patch.
func (p *part[T]) decode(data []byte, previous T, decode func(previousData []byte) (T, error)) (T, error) {
	w, b := &p.inFlight, p.inf.budget
	if !p.foldsSoon() && !w.before.IsFolded() {
		return decode(p.previousData(previous))
	}
	if w.bytes == nil {
		w.bytes = getBuffer()
	}
	if w.encodings.size > maxInFlightBytes {
		w.encodings.forget(len(w.encodings.objects))
	}
	if len(w.encodings.objects) == 0 {
		*w.bytes = (*w.bytes)[:0]
	}
	from := len(*w.bytes)
	*w.bytes = b.codec.AppendReceived(*w.bytes, data)
	o, e, err := p.decodeEncoded((*w.bytes)[from:], previous, decode)
	if err != nil || !e.IsZero() {
		*w.bytes = (*w.bytes)[:from]
	}
	if err == nil {
		w.encodings.add(o, encoded{e, from, len(*w.bytes), len(data)})
	}
	return o, err
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

// decodeEncoded decodes an encoding of the codec. The Encoding is zero if it is not a patch.
func (p *part[T]) decodeEncoded(encoded []byte, previous T, decode func(previousData []byte) (T, error)) (o T, e store.Encoding, err error) {
	w := &p.inFlight
	if !p.isListing() {
		if any(previous) == any(w.previousObject) {
			if o, e, ok := w.before.DecodeNext(previous, encoded); ok {
				return o, e, nil
			}
		}
		o, err = decode(p.previousData(previous))
		return o, e, err
	}
	if w.neighbors == nil {
		w.neighbors = p.inf.store.Neighbors()
	}
	if o, e, ok := w.neighbors.Decode(encoded); ok {
		return o, e, nil
	}
	if o, err = decode(nil); err == nil {
		e, _ = w.neighbors.Follow(o, encoded)
	}
	return o, e, err
}

// bufferPool are buffers for encoded objects: a program may have many informers, few of which
// receive something at a time.
var bufferPool = sync.Pool{New: func() any { return new([]byte) }}

func getBuffer() *[]byte { return bufferPool.Get().(*[]byte) }

// maxKeptBytes bounds the buffers kept for other batches.
const maxKeptBytes = 512 << 10

// putBuffer returns a buffer, or nil, to the pool.
func putBuffer(b *[]byte) {
	if b != nil && cap(*b) <= maxKeptBytes {
		bufferPool.Put(b)
	}
}

// encodingOf returns what an object that has come was decoded from, zero if unknown. It is valid
// until the next one is decoded.
func (w *inFlight[T]) encodingOf(o T) store.Encoding {
	e, ok := w.encodings.take(o)
	if ok && e.patch.IsZero() {
		return store.EncodingOf((*w.bytes)[e.from:e.to:e.to])
	}
	return e.patch
}

// delivered forgets everything about a batch of changes, and about a list before it.
func (w *inFlight[T]) delivered() {
	w.applied()
	w.standIns, w.olderStandIns = nil, nil
}

// applied forgets everything about changes or a list, except stand-ins, which following changes may still use.
func (w *inFlight[T]) applied() {
	clear(w.opened)
	w.opened = w.opened[:0]
	w.encodings.forget(len(w.encodings.objects))
	putBuffer(w.bytes)
	putBuffer(w.data)
	w.bytes, w.data, w.neighbors, w.previousObject, w.before = nil, nil, nil, *new(T), store.Held[T]{}
	w.leftOut = nil
}

// leaveOut records that the transform leaves out the i-th of n changes, which has this type.
func (w *inFlight[T]) leaveOut(i, n int, t object.DeltaType) {
	if w.leftOut == nil {
		w.leftOut = make([]object.DeltaType, n)
	}
	w.leftOut[i] = t
}

// resolve replaces stand-ins by their objects, in changes that came together with the end of a list.
func (p *part[T]) resolve(deltas []object.Delta[T]) {
	if !p.usesStandIns {
		return
	}
	for i := range deltas {
		if object.IsNil(deltas[i].Object) {
			continue
		}
		if held, ok := p.unchanged(deltas[i].Object); ok {
			deltas[i].Object = held.Object()
		}
	}
}

// hasStableEncoding reports whether objects of one version always have the same encoding, so that
// those of lists may be unchanged.
func (b *budgeted[T]) hasStableEncoding() bool {
	return b != nil && b.codec != nil && b.codec.Encoding() == "protobuf"
}
