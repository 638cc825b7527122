package engine

import (
	"strings"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/store"
)

// onTheWay is what the part knows of objects that its source has decoded, or been given, and not handed out yet. The source
// handles them in that order. It is used by the reflector's goroutine.
type onTheWay[T object.Object] struct {
	// encodings are those of decoded objects, one behind the other in bytes: there are some while the budget is tight.
	encodings handed[T, stretch]
	bytes     []byte
	// unchanged are what stands for folded objects that a list may show to be unchanged, so that they need not be opened.
	unchanged handed[T, store.Held[T]]
	// folds says that the list that is being read is folded as it streams, so that all that comes will be.
	folds bool
	// opened keeps the objects open that were opened for the changes of a batch: handlers are told of the same ones.
	opened []T
}

// stretch is a part of the bytes.
type stretch struct{ from, to int }

// maxHanded is how many objects a source may handle before it hands out the first of them.
const maxHanded = 1024

// handed are objects in the order in which they will come, each with something that is known of it.
type handed[T object.Object, V any] struct {
	objects []T
	values  []V
	next    int // the first that may still come
}

// add appends an object.
func (h *handed[T, V]) add(o T, v V) {
	if len(h.objects)-h.next >= 2*maxHanded { // the oldest were not handed out, and will not be
		h.objects, h.values = append([]T{}, h.objects[h.next+maxHanded:]...), append([]V{}, h.values[h.next+maxHanded:]...)
		h.next = 0
	}
	h.objects, h.values = append(h.objects, o), append(h.values, v)
}

// take returns what is known of an object that has come, and forgets what was to come before it.
func (h *handed[T, V]) take(o T) (v V, ok bool) {
	for i := h.next; i < len(h.objects); i++ {
		if any(h.objects[i]) == any(o) {
			v = h.values[i]
			h.forget(i + 1)
			return v, true
		}
	}
	return v, false
}

// forget forgets what is before i.
func (h *handed[T, V]) forget(i int) {
	clear(h.objects[h.next:i])
	clear(h.values[h.next:i])
	if h.next = i; i == len(h.objects) {
		h.objects, h.values, h.next = h.objects[:0], h.values[:0], 0
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
		return p.standIn(key, &held), true
	case !open && len(p.inf.subscriptions()) == 0: // to open it takes longer than it saves
		return o, false
	case !open:
		o = held.ObjectAlone()
	}
	p.onTheWay.opened = append(p.onTheWay.opened, o)
	return o, true
}

// isListing reports whether a list is being read, of which nobody has to know what the objects were before.
func (p *part[T]) isListing() bool { return p.reflector.Phase() != reflector.Watching }

// standIn returns an object with the identity of a folded one, which a source hands out if that is unchanged.
func (p *part[T]) standIn(key object.Key, held *store.Held[T]) T {
	key = object.Key{Namespace: strings.Clone(key.Namespace), Name: strings.Clone(key.Name)}
	o := held.StandIn()
	p.onTheWay.unchanged.add(o, held.Under(key))
	return o
}

// received keeps what an object was decoded from, if it is to be folded soon.
func (p *part[T]) received(o T, data []byte) {
	w, b := &p.onTheWay, p.inf.budget
	if !w.folds && b.memory.used.Load() <= b.memory.budget-2*b.memory.slack() {
		return
	}
	if len(w.encodings.objects) == 0 {
		w.bytes = w.bytes[:0]
	}
	from := len(w.bytes)
	if longer, ok := b.codec.AppendReceived(w.bytes, o, data); ok {
		w.bytes = longer
		w.encodings.add(o, stretch{from, len(longer)})
	}
}

// encodingOf returns what an object that has come was decoded from, nil if that is not known. It is valid until the next is received.
func (w *onTheWay[T]) encodingOf(o T) []byte {
	at, ok := w.encodings.take(o)
	if !ok {
		return nil
	}
	return w.bytes[at.from:at.to]
}

// maxKeptBytes is how much room for encodings is kept from batch to batch.
const maxKeptBytes = 512 << 10

// applied forgets what was known of a batch of changes.
func (w *onTheWay[T]) applied() {
	clear(w.opened)
	w.opened = w.opened[:0]
	w.encodings.forget(len(w.encodings.objects))
	if cap(w.bytes) > maxKeptBytes {
		w.bytes = nil
	}
}

// resolve puts objects in the place of what stands for them, in changes that came together with the end of a list.
func (p *part[T]) resolve(deltas []object.Delta[T]) {
	w := &p.onTheWay
	for i := range deltas {
		if len(w.unchanged.objects) == 0 {
			return
		}
		if held, ok := w.unchanged.take(deltas[i].Object); ok {
			deltas[i].Object = held.Object()
		}
	}
	w.unchanged.forget(len(w.unchanged.objects))
}

// comesAsIs reports whether objects of one version come in one encoding, so that those of lists may be unchanged.
func (b *budgeted[T]) comesAsIs() bool { return b.codec.Encoding() == "protobuf" }
