package store

import (
	"sync"

	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/object"
)

// pack packs objects; those that cannot be encoded are nil in the result. known is what they were
// decoded from, as far as that is known, and may be nil. If like is nil they are neighbors, else
// like has, for each, the dictionary of an object that it resembles.
func (f *folding[T]) pack(objects []T, known []Encoding, like []*fold.Dictionary) []*folded[T] {
	p := packing[T]{folding: f, objects: objects, known: known, like: like, entries: make([]*folded[T], len(objects))}
	p.encoded = bufferPool.Get().(*[]byte)
	defer func() { putBuffer(p.encoded) }()
	p.adopt()
	for i := range objects {
		if p.entries[i] == nil {
			p.add(i)
		}
	}
	p.flush()
	return p.entries
}

// packOne packs an object that was decoded from e. before is an earlier state, or nil. It returns
// nil if the object cannot be packed.
func (f *folding[T]) packOne(o T, e Encoding, before *folded[T]) *folded[T] {
	if f.packer.AdoptPatch(e.packed) {
		return f.entry(o, e.packed)
	}
	if !e.packed.IsZero() { // one of a list that has ended
		return f.pack([]T{o}, []Encoding{e}, nil)[0]
	}
	var like *fold.Dictionary
	if before != nil {
		like = before.packed.Dictionary()
	}
	return f.entry(o, f.packer.Pack(e.data, like))
}

// packing packs a batch of objects.
type packing[T object.Object] struct {
	*folding[T]
	objects []T
	known   []Encoding
	like    []*fold.Dictionary
	entries []*folded[T]
	// encoded are the concatenated encodings waiting to be packed together; they end at ends, and
	// are those of the objects at.
	encoded  *[]byte
	ends, at []int
}

// adopt takes over objects that are patches already.
func (p *packing[T]) adopt() {
	var patches []fold.Packed
	for i := range p.known {
		patches = append(patches, p.known[i].packed)
	}
	for i, adopted := range p.packer.AdoptPatches(patches) {
		if adopted {
			p.entries[i] = p.entry(p.objects[i], p.known[i].packed)
		}
	}
}

// add packs the i-th object, at once or with the next flush.
func (p *packing[T]) add(i int) {
	longer, err := p.encode(i)
	if err != nil {
		p.unencodable(p.objects[i], err)
		return
	}
	*p.encoded, p.ends, p.at = longer, append(p.ends, len(longer)), append(p.at, i)
	if p.like != nil || len(longer) >= packBytes { // only neighbors are packed together
		p.flush()
	}
}

// encode appends what the i-th object was decoded from, if available, or else its encoding.
func (p *packing[T]) encode(i int) ([]byte, error) {
	if p.known != nil {
		if longer, ok := p.known[i].appendTo(*p.encoded); ok {
			return longer, nil
		}
	}
	return p.codec.Append(*p.encoded, p.objects[i])
}

// flush packs the waiting encodings.
func (p *packing[T]) flush() {
	for i, packed := range p.packWaiting(slicesOf(*p.encoded, p.ends)) {
		p.entries[p.at[i]] = p.entry(p.objects[p.at[i]], packed)
	}
	*p.encoded, p.ends, p.at = (*p.encoded)[:0], p.ends[:0], p.at[:0]
}

func (p *packing[T]) packWaiting(encoded [][]byte) (packed []fold.Packed) {
	if p.like == nil {
		return p.packer.PackAll(encoded)
	}
	for i, data := range encoded {
		packed = append(packed, p.packer.Pack(data, p.like[p.at[i]]))
	}
	return packed
}

// slicesOf returns the parts of b that end at ends.
func slicesOf(b []byte, ends []int) [][]byte {
	parts, start := make([][]byte, len(ends)), 0
	for i, end := range ends {
		parts[i], start = b[start:end:end], end
	}
	return parts
}

// packBytes is how many encoded bytes are packed together, except that the last object may exceed
// it; maxScratch is the largest buffer kept.
const (
	packBytes  = 2 << 20
	maxScratch = 2 * packBytes
)

// bufferPool are buffers for the encodings of objects that are packed together.
var bufferPool = sync.Pool{New: func() any { return new([]byte) }}

func putBuffer(scratch *[]byte) {
	if *scratch = (*scratch)[:0]; cap(*scratch) <= maxScratch {
		bufferPool.Put(scratch)
	}
}

// entry returns the entry of a packed object.
func (f *folding[T]) entry(o T, packed fold.Packed) *folded[T] {
	e := f.newFolded(packed, o.GetUID(), o.GetResourceVersion())
	f.opened.put(e.number(), f.pointer(o)) // readers keep getting o while somebody holds it
	return e
}

// unencodable records why an object stays open.
func (f *folding[T]) unencodable(o T, err error) {
	reason := object.KeyOf(o).String() + ": " + err.Error()
	f.unencoded.Store(&reason)
}
