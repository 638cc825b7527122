package fold

import (
	"math"
	"math/rand/v2"
	"sync"

	"github.com/klauspost/compress/s2"
)

// minPackable is the length below which objects are kept as they are: s2 does not compress less than 32 bytes.
const minPackable = 32

// Packer packs the objects of one collection. The zero value is ready for use. Any goroutine may call any method; they
// take turns.
//
//  1. Pack packs an object, which then counts as one of the collection. PackAll packs neighbors together, better. PackSmaller packs
//     those together that were packed one by one.
//  2. Release says that an object has left the collection. Adopt says that one packed elsewhere has come.
//  3. Stale tells whether packing an object again saves memory.
//  4. Stats tells what the collection takes.
type Packer struct {
	mu sync.Mutex

	// current is the dictionary for objects that are not known to resemble others. It is nil at first, and as long as
	// none is worth its memory.
	current *usage
	// usages are the dictionaries that objects of the collection need, and the current one. If there are any, one of
	// them is the current one.
	usages    map[*Dictionary]*usage
	training  training
	templates templates
	differ    Differ // nil if no patches are made
	rng       rand.PCG
	count     Stats // without what Stats adds up when it is asked
}

// usage is what one Packer does with one dictionary.
type usage struct {
	dict    *Dictionary
	encoder *s2.Dict // the dictionary with the tables for packing; nil if it was not packed with lately
	used    bool     // packed with since the last training
	objects int      // in the collection
	opened  int64    // bytes of these before packing
	ratio   float64  // of packed to opened bytes that held-out samples had; 0 if not known
}

// Stats is what the objects of a Packer take and took.
type Stats struct {
	Objects int // packed and not released
	Raw     int // of these, kept as they are, because packing does not make them smaller
	Stale   int // of these, worth packing again (see Packer.Stale)
	// StaleBytes is what the dictionaries take that only stale objects need.
	StaleBytes int64

	OpenedBytes int64 // what the objects would take encoded
	PackedBytes int64 // what they take packed
	HeapBytes   int64 // what they take in the heap: Go's allocator rounds each up

	Dictionaries    int   // that objects of the collection need, templates and the current one included
	DictionaryBytes int64 // what they take
	EncoderBytes    int64 // what the tables for packing with them take
	SampleBytes     int64 // packed objects kept for training; most are in the collection anyway
	Trainings       int   // dictionaries trained and taken into use since the start

	incompressible, alone int   // objects of these forms
	patched               int64 // what the patches would take encoded
}

// Bytes returns what all of it takes in the heap: the objects, the dictionaries, the tables and the samples.
func (s Stats) Bytes() int64 {
	return s.HeapBytes + s.DictionaryBytes + s.EncoderBytes + s.SampleBytes
}

// Pack packs an encoded object and counts it as one of the collection. It keeps no reference to data.
//
// If like is not nil, it is the dictionary of an object that this one resembles, such as its earlier version or its
// neighbor in the order of keys, and is used if it serves this one well.
func (p *Packer) Pack(data []byte, like *Dictionary) Packed {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.packNear(data, like)
	p.enter(out, +1)
	p.training.observe(p, out)
	return out
}

// packNear packs as a patch of like, if that is a template and pays, or else with a dictionary.
func (p *Packer) packNear(data []byte, like *Dictionary) Packed {
	if most := p.longestPatch(data, like); most > 0 {
		if out, ok := like.patch(p.differ, data, most); ok {
			return out
		}
	}
	return p.packLike(data, p.usages[like])
}

// longestPatch is how long the patch may be that makes data of a template, 0 if it may not be one. A template that few objects need gets no more of them.
func (p *Packer) longestPatch(data []byte, template *Dictionary) int {
	if p.differ == nil || p.templates.thin(template) || !mayBePatch(data) {
		return 0
	}
	return p.expectedWithout(len(data))
}

// PatchNear returns data as Pack packs it if that is a patch of the template, or else false. The object is of no collection until AdoptPatches takes it.
func (p *Packer) PatchNear(data []byte, template *Dictionary) (Packed, bool) {
	p.mu.Lock()
	most := p.longestPatch(data, template)
	p.mu.Unlock()
	if most == 0 {
		return Packed{}, false
	}
	return template.patch(p.differ, data, most)
}

// packLike packs with the dictionary of like, or with the current one if like is stale or serves the object badly.
func (p *Packer) packLike(data []byte, like *usage) Packed {
	if like == nil || like == p.current || p.stale(like) {
		return p.current.pack(data)
	}
	out := like.pack(data)
	if float64(out.Size()) <= serveBadly*min(like.expected(), p.current.expected())*float64(len(data)) {
		return out
	}
	if other := p.current.pack(data); other.Size() < out.Size() {
		return other
	}
	return out
}

// expected is the ratio that objects should have, 1 if it is not known.
func (u *usage) expected() float64 {
	if u.ratio == 0 {
		return 1
	}
	return u.ratio
}

// PackAll packs neighbors: objects that have more in common than any two of the collection, such as those that follow each
// other in the order of keys. If they pay for a dictionary of their own, they get one. About 500 objects or
// 2 MiB are a good batch.
func (p *Packer) PackAll(objects [][]byte) []Packed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.packAll(objects, math.MaxInt)
}

// worthPacking is what neighbors have to shrink to for PackSmaller to pack them again.
const worthPacking = 15. / 16

// PackSmaller is PackAll of neighbors of the collection that were packed before, one by one. If they do not take considerably less memory then, with a
// dictionary of their own if they get one, it returns nil.
func (p *Packer) PackSmaller(objects [][]byte, before []Packed) []Packed {
	size := 0
	for _, object := range before {
		size += object.HeapSize()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.packAll(objects, int(float64(size)*worthPacking))
}

// packAll packs neighbors and counts them, unless they take more memory than most. Then it returns nil.
func (p *Packer) packAll(objects [][]byte, most int) []Packed {
	b := p.packBatch(objects)
	if b.size > most {
		p.forget(b)
		return nil
	}
	for _, packed := range b.packed {
		p.enter(packed, +1)
	}
	if b.own != nil && b.own != p.current {
		b.own.encoder = nil // until one of them changes
	}
	for _, packed := range b.packed {
		p.training.observe(p, packed)
	}
	return b.packed
}

// batch are neighbors that were packed and are not counted yet.
type batch struct {
	packed []Packed
	own    *usage // the dictionary that they got, or nil
	size   int    // what they take, with the dictionary and the templates that they got
}

// packBatch packs neighbors: as patches where they resemble each other, and else with a dictionary.
func (p *Packer) packBatch(objects [][]byte) batch {
	before := p.templates.bytes
	b := batch{packed: p.patchNeighbors(objects)}
	b.size = int(p.templates.bytes - before)
	with := p.current
	if b.own = p.trainFor(unpacked(objects, b.packed)); b.own != nil {
		with = b.own
		b.size += b.own.dict.Size()
	}
	for i, data := range objects {
		if b.packed[i].IsZero() {
			b.packed[i] = with.pack(data)
		}
		b.size += b.packed[i].HeapSize()
	}
	return b
}

// unpacked returns those of the objects that are not packed.
func unpacked(objects [][]byte, packed []Packed) (rest [][]byte) {
	for i, data := range objects {
		if packed[i].IsZero() {
			rest = append(rest, data)
		}
	}
	return rest
}

// forget drops what a batch got that does not come into the collection.
func (p *Packer) forget(b batch) {
	if b.own != nil && b.own != p.current {
		delete(p.usages, b.own.dict)
	}
	p.templates.dropUnused(b.packed)
}

// Release says that an object that Pack returned or Adopt got is no longer in the collection. Whoever still holds it
// can go on opening it. It returns the template of the object, if no other one needs that, or else nil.
func (p *Packer) Release(old Packed) (unneeded *Dictionary) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.enter(old, -1)
	if old.is(formPatch) && p.templates.objects[old.dict] == 0 {
		return old.dict
	}
	return nil
}

// Needs reports whether objects of the collection need a template.
func (p *Packer) Needs(template *Dictionary) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, needed := p.templates.objects[template]
	return needed
}

// Adopt counts an object that was not packed here, such as one read from a file, as one of the collection. If the
// packer has no dictionary yet, it goes on with that of the object.
func (p *Packer) Adopt(from Packed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if from.is(formPatch) {
		p.templates.add(from.dict)
	} else if from.dict != nil && p.usages[from.dict] == nil {
		u := p.add(&usage{dict: from.dict})
		if p.current == nil {
			p.use(u)
		}
	}
	p.enter(from, +1)
}

// Stale reports whether packing the object again saves memory: it was packed before there was a dictionary, or with
// one that too few objects need.
func (p *Packer) Stale(object Packed) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if object.is(formPatch) {
		return p.templates.thin(object.dict)
	}
	if object.dict != nil {
		u := p.usages[object.dict]
		return u == nil || p.stale(u)
	}
	return p.current != nil && !object.is(formIncompressible)
}

// stale reports whether the objects of a dictionary are so few that it takes more memory than it saves.
func (p *Packer) stale(u *usage) bool { return u != p.current && u.opened < staleBelow }

// Stats returns what the collection takes.
func (p *Packer) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.count
	s.SampleBytes = p.training.samples.size()
	s.Dictionaries = len(p.usages) + len(p.templates.objects)
	s.DictionaryBytes = p.templates.bytes
	s.Stale, s.StaleBytes = p.templates.thinObjects, p.templates.thinBytes
	if p.current != nil {
		s.Stale += s.alone
	}
	for _, u := range p.usages {
		s.DictionaryBytes += int64(u.dict.Size())
		if u.encoder != nil {
			s.EncoderBytes += encoderBytes
		}
		if p.stale(u) {
			s.Stale += u.objects
			s.StaleBytes += int64(u.dict.Size())
		}
	}
	return s
}

// forDictionaries is what the objects that are no patches would take encoded.
func (p *Packer) forDictionaries() int64 { return p.count.OpenedBytes - p.count.patched }

// enter counts an object that comes (+1) or goes (-1).
func (p *Packer) enter(object Packed, n int) {
	opened := int64(n * object.Len())
	p.count.Objects += n
	p.count.OpenedBytes += opened
	p.count.PackedBytes += int64(n * object.Size())
	p.count.HeapBytes += int64(n * object.HeapSize())
	switch {
	case object.is(formIncompressible):
		p.count.Raw += n
		p.count.incompressible += n
	case object.is(formRaw):
		p.count.Raw += n
		p.count.alone += n
	case object.is(formPatch):
		p.count.patched += opened
		p.templates.enter(object.dict, n)
	case object.dict == nil:
		p.count.alone += n
	default:
		p.enterUsage(p.usages[object.dict], n, opened)
	}
}

// enterUsage counts objects and bytes at a dictionary, and forgets it when no object is left.
func (p *Packer) enterUsage(u *usage, objects int, opened int64) {
	if u == nil {
		return // released more often than packed
	}
	u.objects += objects
	u.opened += opened
	if u.objects <= 0 && u != p.current {
		delete(p.usages, u.dict)
	}
}

// add makes a dictionary known, and returns u.
func (p *Packer) add(u *usage) *usage {
	if p.usages == nil {
		p.usages = make(map[*Dictionary]*usage)
	}
	p.usages[u.dict] = u
	return u
}

// use makes a known dictionary the current one.
func (p *Packer) use(u *usage) {
	if old := p.current; old != nil && old.objects <= 0 {
		delete(p.usages, old.dict)
	}
	p.current = u
}

// dropEncoders frees the tables of dictionaries that were not packed with since it was called last.
func (p *Packer) dropEncoders() {
	for _, u := range p.usages {
		if !u.used {
			u.encoder = nil
		}
		u.used = false
	}
}

// pack packs data with the dictionary, or without one if u is nil.
func (u *usage) pack(data []byte) Packed {
	if len(data) < minPackable || len(data) > MaxOpened {
		return seal(formIncompressible, nil, data, data)
	}
	buf := getBuffer(s2.MaxEncodedLen(len(data)))
	defer putBuffer(buf)
	block := u.encode(*buf, data)
	switch worthwhile := len(block) <= len(data)-len(data)/16; {
	case worthwhile && u != nil:
		return seal(formDictionary, u.dict, block, data)
	case worthwhile:
		return seal(formAlone, nil, block, data)
	case u != nil:
		return seal(formIncompressible, nil, data, data)
	default:
		return seal(formRaw, nil, data, data)
	}
}

// encode compresses data into buf, which is large enough.
func (u *usage) encode(buf, data []byte) []byte {
	if u == nil {
		return s2.Encode(buf, data)
	}
	if u.encoder == nil {
		u.encoder = u.dict.s2()
	}
	u.used = true
	return u.encoder.Encode(buf, data)
}
