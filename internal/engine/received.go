package engine

import (
	"strings"
	"sync"
	"unsafe"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/store"
)

// onTheWay is what the part knows of objects that its source has decoded, or been given, and not handed out yet. The source
// handles them in that order. It is used by the reflector's goroutine.
type onTheWay[T object.Object] struct {
	// encodings are those of decoded objects, one behind the other in bytes: there are some while the budget is tight. Between batches
	// bytes is nil.
	encodings handed[T]
	bytes     *[]byte
	// folds says that the list that is being read is folded as it streams, so that all that comes will be.
	folds bool
	// opened keeps the objects open that were opened for the changes of a batch: handlers are told of the same ones.
	opened []T
	// recalled is the last of these, and data what it was decoded from, encoded by the codec. Between batches data is nil.
	recalled T
	data     *[]byte
	// standIns and olderStandIns have what stand-ins stand for, by key: the store may have lost it when they come, if somebody writes to it by hand.
	standIns, olderStandIns map[object.Key]store.Held[T]
}

// stretch is a part of the bytes.
type stretch struct{ from, to int }

// maxHanded is how many objects a source may handle before it hands out the first of them.
const maxHanded = 1024

// handed are objects in the order in which they will come, each with what it was decoded from.
type handed[T object.Object] struct {
	objects   []T
	stretches []stretch
	next      int // the first that may still come
}

// add appends an object.
func (h *handed[T]) add(o T, at stretch) {
	if len(h.objects)-h.next >= 2*maxHanded { // the oldest were not handed out, and will not be
		h.objects, h.stretches = append([]T{}, h.objects[h.next+maxHanded:]...), append([]stretch{}, h.stretches[h.next+maxHanded:]...)
		h.next = 0
	}
	h.objects, h.stretches = append(h.objects, o), append(h.stretches, at)
}

// take returns what an object that has come was decoded from, and forgets what was to come before it.
func (h *handed[T]) take(o T) (at stretch, ok bool) {
	for i := h.next; i < len(h.objects); i++ {
		if any(h.objects[i]) == any(o) {
			at = h.stretches[i]
			h.forget(i + 1)
			return at, true
		}
	}
	return at, false
}

// forget forgets what is before i.
func (h *handed[T]) forget(i int) {
	clear(h.objects[h.next:i])
	if h.next = i; i == len(h.objects) {
		h.objects, h.stretches, h.next = h.objects[:0], h.stretches[:0], 0
	}
}

// recall finds the object that the store holds, for the source to compare with what comes.
func (p *part[T]) recall(key object.Key) (T, bool) {
	held, ok := p.inf.store.Snapshot().Held(key)
	if !ok {
		var none T
		return none, false
	}
	o, open := held.Open()
	switch {
	case open && (!held.IsFolded() || p.isListing()):
		return o, true
	case !p.inf.budget.comesAsIs(): // the decoder makes no use of it
		return o, false
	case p.isListing():
		if !p.usesStandIns {
			return o, false
		}
		o = standInFor(&held)
		p.onTheWay.standsFor(object.KeyOf(o), &held)
		return o, true
	case !open && len(p.inf.subscriptions()) == 0: // to open it takes longer than it saves
		return o, false
	case !open:
		o = p.onTheWay.open(&held)
	}
	p.onTheWay.opened = append(p.onTheWay.opened, o)
	return o, true
}

// open opens a folded object, and keeps what it is decoded from.
func (w *onTheWay[T]) open(held *store.Held[T]) T {
	if w.data == nil {
		w.data = takeBuffer()
	}
	o, data := held.ObjectFrom(*w.data)
	if w.recalled = o; data == nil { // somebody has opened it meanwhile
		*w.data = (*w.data)[:0]
	} else {
		*w.data = data
	}
	return o
}

// recalledData returns what an object was decoded from that recall has just opened; nil if it was open.
func (p *part[T]) recalledData(o T) []byte {
	w := &p.onTheWay
	if w.data == nil || len(*w.data) == 0 || any(w.recalled) != any(o) {
		return nil
	}
	return p.inf.budget.codec.ReceivedData(*w.data)
}

// isListing reports whether a list is being read, of which nobody has to know what the objects were before.
func (p *part[T]) isListing() bool { return p.reflector.Phase() != reflector.Watching }

// A stand-in has the identity of a folded object. A source that finds that unchanged hands out the stand-in, so the object need not be
// opened. Only sources that look at nothing else may get one: another could take it for the object, and filter or record it.

// standInMark tells a stand-in from objects, by where it is in memory.
var standInMark = strings.Clone("a stand-in")

// handsOnUnseen reports whether all that a source hands out of what Previous returns is what it finds unchanged by uid and version, without
// looking at more of it.
func handsOnUnseen[T object.Object](src source.ListerWatcher[T]) bool {
	if _, ok := src.(*source.HTTP[T]); ok {
		return true
	}
	of, ok := src.(interface{ HandsOnUnseen() bool }) // one that has another source's objects as T's
	return ok && of.HandsOnUnseen()
}

func standInFor[T object.Object](held *store.Held[T]) T {
	o := held.StandIn()
	o.SetSelfLink(standInMark)
	return o
}

// unchanged returns the object that o stands for, and false if o is an object itself.
func (p *part[T]) unchanged(o T) (held store.Held[T], ok bool) {
	if !p.usesStandIns || unsafe.StringData(o.GetSelfLink()) != unsafe.StringData(standInMark) {
		return held, false
	}
	key := object.KeyOf(o)
	if held, ok = p.onTheWay.standIns[key]; ok {
		return held, true
	}
	if held, ok = p.onTheWay.olderStandIns[key]; ok {
		return held, true
	}
	held, ok = p.inf.store.Snapshot().Held(key) // more were on the way
	return held.Under(key), ok
}

// standsFor notes what the stand-in with the key stands for.
func (w *onTheWay[T]) standsFor(key object.Key, held *store.Held[T]) {
	if w.standIns == nil || len(w.standIns) >= maxHanded {
		w.standIns, w.olderStandIns = w.olderStandIns, w.standIns
		clear(w.standIns)
	}
	if w.standIns == nil {
		w.standIns = make(map[object.Key]store.Held[T])
	}
	w.standIns[key] = held.Under(key)
}

// received keeps what an object was decoded from, if it is to be folded soon.
func (p *part[T]) received(o T, data []byte) {
	w, b := &p.onTheWay, p.inf.budget
	if !w.folds && b.memory.used.Load() <= b.memory.budget-2*b.memory.slack() {
		return
	}
	if w.bytes == nil {
		w.bytes = takeBuffer()
	}
	if len(w.encodings.objects) == 0 {
		*w.bytes = (*w.bytes)[:0]
	}
	from := len(*w.bytes)
	if longer, ok := b.codec.AppendReceived(*w.bytes, o, data); ok {
		*w.bytes = longer
		w.encodings.add(o, stretch{from, len(longer)})
	}
}

// encodings are buffers for encoded objects: a program may have many informers, few of which get something at a time.
var encodings = sync.Pool{New: func() any { return new([]byte) }}

func takeBuffer() *[]byte { return encodings.Get().(*[]byte) }

// maxKeptBytes is how much room for encodings is kept for other batches.
const maxKeptBytes = 512 << 10

// giveBuffer takes a buffer back, or nil.
func giveBuffer(b *[]byte) {
	if b != nil && cap(*b) <= maxKeptBytes {
		encodings.Put(b)
	}
}

// encodingOf returns what an object that has come was decoded from, nil if that is not known. It is valid until the next is received.
func (w *onTheWay[T]) encodingOf(o T) []byte {
	at, ok := w.encodings.take(o)
	if !ok {
		return nil
	}
	return (*w.bytes)[at.from:at.to]
}

// delivered forgets what was known of a batch of changes, and of the list that may have been before it.
func (w *onTheWay[T]) delivered() {
	w.applied()
	w.standIns, w.olderStandIns = nil, nil
}

// applied forgets what was known of changes, or of a list, but for what changes behind it stand for.
func (w *onTheWay[T]) applied() {
	clear(w.opened)
	w.opened = w.opened[:0]
	w.encodings.forget(len(w.encodings.objects))
	giveBuffer(w.bytes)
	giveBuffer(w.data)
	w.bytes, w.data, w.recalled = nil, nil, *new(T)
}

// resolve puts objects in the place of what stands for them, in changes that came together with the end of a list.
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

// comesAsIs reports whether objects of one version come in one encoding, so that those of lists may be unchanged.
func (b *budgeted[T]) comesAsIs() bool {
	return b != nil && b.codec != nil && b.codec.Encoding() == "protobuf"
}
