package fold

import (
	"math"
	"math/rand/v2"
	"sync"

	"github.com/klauspost/compress/s2"
)

// minPackable is the length below which objects are stored as is: s2 does not compress less than 32 bytes.
const minPackable = 32

// Packer packs the objects of one collection. The zero value is ready for use. All methods may be
// called from any goroutine; a mutex serializes them.
//
//  1. Pack packs an object and adds it to the collection. PackAll packs neighbors together, which
//     is better. PackSmaller repacks together neighbors that were packed one by one.
//  2. Release removes an object from the collection. Adopt adds one that was packed elsewhere.
//  3. Stale tells whether repacking an object saves memory.
//  4. Stats returns what the collection takes.
type Packer struct {
	mu sync.Mutex

	// current is the dictionary for objects not known to resemble others. It is nil until one is worth its memory.
	current *usage
	// usages are the dictionaries that objects of the collection need, and the current one. If it
	// is not empty, there is a current one.
	usages    map[*Dictionary]*usage
	training  training
	templates templates
	differ    Differ // nil if no patches are made
	rng       rand.PCG
	count     Stats // without the parts that Stats computes
}

// usage is the use that one Packer makes of one dictionary.
type usage struct {
	dict    *Dictionary
	encoder *s2.Dict // the dictionary with tables for packing; nil if not used for packing lately
	used    bool     // used for packing since the last training
	objects int      // in the collection
	opened  int64    // their length before packing
	ratio   float64  // of packed to opened bytes of held-out samples; 0 if unknown
}

// Stats holds the sizes of a Packer's objects, before and after packing.
type Stats struct {
	Objects int // packed and not released
	Raw     int // those stored as is, because packing does not make them smaller
	Stale   int // those worth repacking (see Packer.Stale)
	// StaleBytes is the memory of dictionaries that only stale objects need.
	StaleBytes int64

	OpenedBytes int64 // size of the objects when opened
	PackedBytes int64 // their size when packed
	HeapBytes   int64 // their heap memory: Go's allocator rounds each up

	Dictionaries    int   // used by objects of the collection, including templates and the current one
	DictionaryBytes int64 // their memory
	EncoderBytes    int64 // memory of the tables for packing with them
	SampleBytes     int64 // packed objects kept for training; most are also in the collection
	Trainings       int   // dictionaries trained and put to use so far

	incompressible    int   // objects of formIncompressible
	withoutDictionary int   // objects of formRaw and formBlock
	patched           int64 // size of the patches when opened
}

// Bytes returns the total heap memory: objects, dictionaries, tables and samples.
func (s Stats) Bytes() int64 {
	return s.HeapBytes + s.DictionaryBytes + s.EncoderBytes + s.SampleBytes
}

// Pack packs an encoded object and adds it to the collection. It keeps no reference to data.
//
// If like is not nil, it is the dictionary of an object that this one resembles, such as its earlier version or its
// neighbor in key order; it is used if it suits this object.
func (p *Packer) Pack(data []byte, like *Dictionary) Packed {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.packNear(data, like)
	p.countObject(out, +1)
	p.training.observe(p, out)
	return out
}

// packNear packs data as a patch of like, if that is a template and it pays off, or else with a dictionary.
func (p *Packer) packNear(data []byte, like *Dictionary) Packed {
	if most := p.longestPatch(data, like); most > 0 {
		if out, ok := like.patch(p.differ, data, most); ok {
			return out
		}
	}
	return p.packLike(data, p.usages[like])
}

// longestPatch returns the maximum length of a patch from template to data, 0 if there should be
// none. Templates that few objects need get no new ones.
func (p *Packer) longestPatch(data []byte, template *Dictionary) int {
	if p.differ == nil || p.templates.stale(template) || !mayBePatch(data) {
		return 0
	}
	return p.expectedWithout(len(data))
}

// PatchNear returns what Pack returns if that is a patch of the template, or else false. The object
// is in no collection until AdoptPatches adds it.
func (p *Packer) PatchNear(data []byte, template *Dictionary) (Packed, bool) {
	p.mu.Lock()
	most := p.longestPatch(data, template)
	p.mu.Unlock()
	if most == 0 {
		return Packed{}, false
	}
	return template.patch(p.differ, data, most)
}

// packLike packs data with the dictionary like, or with the current one if like is stale or suits the object badly.
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

// expected is the ratio to expect of objects, 1 if unknown.
func (u *usage) expected() float64 {
	if u.ratio == 0 {
		return 1
	}
	return u.ratio
}

// PackAll packs neighbors: objects that have more in common than arbitrary ones of the collection,
// such as those adjacent in key order. They get their own dictionary if that pays off. A good batch
// has about 500 objects or 2 MiB.
func (p *Packer) PackAll(objects [][]byte) []Packed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.packAll(objects, math.MaxInt)
}

// worthPacking is the fraction that neighbors must shrink to for PackSmaller to repack them.
const worthPacking = 15. / 16

// PackSmaller is like PackAll, for neighbors in the collection that were packed one by one before.
// It returns nil if they would not take considerably less memory, including their own dictionary if
// they get one.
func (p *Packer) PackSmaller(objects [][]byte, before []Packed) []Packed {
	size := 0
	for _, object := range before {
		size += object.HeapSize()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.packAll(objects, int(float64(size)*worthPacking))
}

// packAll packs neighbors and counts them. If they take more memory than most, it returns nil instead.
func (p *Packer) packAll(objects [][]byte, most int) []Packed {
	b := p.packBatch(objects)
	if b.size > most {
		p.forget(b)
		return nil
	}
	for _, packed := range b.packed {
		p.countObject(packed, +1)
	}
	if b.own != nil && b.own != p.current {
		b.own.encoder = nil // until one of them changes
	}
	for _, packed := range b.packed {
		p.training.observe(p, packed)
	}
	return b.packed
}

// batch is a batch of packed neighbors that are not yet counted.
type batch struct {
	packed []Packed
	own    *usage // their own dictionary, or nil
	size   int    // their memory, including their own dictionary and new templates
}

// packBatch packs neighbors: as patches where they resemble each other, the others with a dictionary.
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

// unpacked returns the objects that are not packed.
func unpacked(objects [][]byte, packed []Packed) (rest [][]byte) {
	for i, data := range objects {
		if packed[i].IsZero() {
			rest = append(rest, data)
		}
	}
	return rest
}

// forget drops the dictionary and templates of a batch that is not added to the collection.
func (p *Packer) forget(b batch) {
	if b.own != nil && b.own != p.current {
		delete(p.usages, b.own.dict)
	}
	p.templates.dropUnused(b.packed)
}

// Release removes an object, returned by Pack or passed to Adopt, from the collection. Code that
// still holds it can still open it. If no other object needs its template, Release returns that,
// else nil.
func (p *Packer) Release(old Packed) (unneeded *Dictionary) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.countObject(old, -1)
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

// Adopt adds an object packed elsewhere, for example one read from a file, to the collection. If
// the packer has no dictionary yet, it continues with that of the object.
func (p *Packer) Adopt(from Packed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if from.is(formPatch) {
		p.templates.add(from.dict)
	} else if from.dict != nil && p.usages[from.dict] == nil {
		u := p.add(&usage{dict: from.dict})
		if p.current == nil {
			p.setCurrent(u)
		}
	}
	p.countObject(from, +1)
}

// Stale reports whether repacking the object saves memory: it was packed before there was a
// dictionary, or with one that too few objects need.
func (p *Packer) Stale(object Packed) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if object.is(formPatch) {
		return p.templates.stale(object.dict)
	}
	if object.dict != nil {
		u := p.usages[object.dict]
		return u == nil || p.stale(u)
	}
	return p.current != nil && !object.is(formIncompressible)
}

// stale reports whether a dictionary has so few objects that it takes more memory than it saves.
func (p *Packer) stale(u *usage) bool { return u != p.current && u.opened < staleBelow }

// Stats returns the sizes of the collection.
func (p *Packer) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.count
	s.SampleBytes = p.training.samples.size()
	s.Dictionaries = len(p.usages) + len(p.templates.objects)
	s.DictionaryBytes = p.templates.bytes
	s.Stale, s.StaleBytes = p.templates.staleObjects, p.templates.staleBytes
	if p.current != nil {
		s.Stale += s.withoutDictionary
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

// forDictionaries is the opened size of the objects that are not patches.
func (p *Packer) forDictionaries() int64 { return p.count.OpenedBytes - p.count.patched }

// countObject counts an object that is added (+1) or removed (-1).
func (p *Packer) countObject(object Packed, n int) {
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
		p.count.withoutDictionary += n
	case object.is(formPatch):
		p.count.patched += opened
		p.templates.countObjects(object.dict, n)
	case object.dict == nil:
		p.count.withoutDictionary += n
	default:
		p.countUsage(p.usages[object.dict], n, opened)
	}
}

// countUsage counts objects and bytes of a dictionary, and drops it when no object is left.
func (p *Packer) countUsage(u *usage, objects int, opened int64) {
	if u == nil {
		return // released more often than packed
	}
	u.objects += objects
	u.opened += opened
	if u.objects <= 0 && u != p.current {
		delete(p.usages, u.dict)
	}
}

// add registers a dictionary, and returns u.
func (p *Packer) add(u *usage) *usage {
	if p.usages == nil {
		p.usages = make(map[*Dictionary]*usage)
	}
	p.usages[u.dict] = u
	return u
}

// setCurrent makes a registered dictionary the current one.
func (p *Packer) setCurrent(u *usage) {
	if old := p.current; old != nil && old.objects <= 0 {
		delete(p.usages, old.dict)
	}
	p.current = u
}

// dropEncoders frees the tables of dictionaries that were not used for packing since the last call.
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
		return seal(formBlock, nil, block, data)
	case u != nil:
		return seal(formIncompressible, nil, data, data)
	default:
		return seal(formRaw, nil, data, data)
	}
}

// encode compresses data into buf, which must be large enough.
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
