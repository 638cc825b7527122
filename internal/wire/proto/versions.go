package proto

import (
	"hash/maphash"
	"reflect"
	"unsafe"
)

// specField is the number of the spec in nearly all types that have one.
const specField = 2

// minSpec is the size in bytes from which on hashing a spec is cheaper than comparing it.
const minSpec = 128

// version is what is remembered of the last version of an object.
//
// The spec is the largest part of most objects and the one that changes least, and comparing it with an encoding costs as
// much as decoding all the rest. Where the hash of its bytes and the checksum of its memory are those of the version before, it
// is taken over as a whole. So nothing is wrong should somebody have written to the object, or should it be another
// one: the checksum goes for one place in memory.
type version struct {
	spec uint64 // hash of the spec's bytes, combined with the checksum of its memory; 0 if it has none to speak of
	// held is the memory in bytes of all blocks of strings and arrays of times that the object may refer to.
	//
	// A string that is taken over keeps the whole block alive that it is in, though the rest of that may have been
	// replaced since. Every version adds a block with what is new in it, and in the worst case all of them stay.
	// When they are larger than the encoded object, a version is decoded without taking anything over, and they
	// all go. For a pod that becomes ready and unready, that is about every fiftieth version.
	held int
}

// versions remembers the last versions of objects, by the hash of their uids. It keeps nothing of the objects alive.
// What is not used for a while, such as what belongs to objects that are gone, is dropped; a version whose predecessor
// is not remembered, because it was dropped or decoded elsewhere, is compared with that part by part, the spec too.
type versions struct {
	summer     summer
	young, old map[uint64]version
	uses       int // since the young generation began
	max        int // of each generation
}

const (
	// versionBytes is about what one takes in a map.
	versionBytes = 40
	// maxVersions bounds each of the two generations. Where memory is bounded, a quarter of it is for both.
	maxVersions   = 1 << 19
	versionsShare = 4
	// A generation ends when it was used usesPerVersion times as often as there are versions; minUses keeps it from being
	// trivially short.
	usesPerVersion = 8
	minUses        = 1 << 12
)

// decodedAnew is how many of the versions whose predecessor is not remembered take nothing over: one in so many, at random. So what
// they keep alive of earlier ones stays little, although nobody counts it.
const decodedAnew = 16

// newVersions returns room for versions in a part of maxBytes, 0 for enough.
func newVersions(maxBytes int) *versions {
	vs := &versions{summer: newSummer(), young: map[uint64]version{}, max: maxVersions}
	if maxBytes > 0 {
		vs.max = min(vs.max, maxBytes/versionsShare/versionBytes/2)
	}
	return vs
}

func (vs *versions) get(key uint64) (version, bool) {
	v, ok := vs.young[key]
	if !ok {
		v, ok = vs.old[key]
	}
	return v, ok
}

func (vs *versions) put(key uint64, v version) {
	vs.young[key] = v
	vs.uses++
	if vs.uses > minUses+usesPerVersion*vs.len() || len(vs.young) > vs.max {
		vs.old, vs.young, vs.uses = vs.young, map[uint64]version{}, 0
	}
}

// len may count versions twice that are used at present.
func (vs *versions) len() int { return len(vs.young) + len(vs.old) }

// specOf returns the plan of the spec of root, nil if root has none that is a message held by value.
func (d *decoder) specOf(root *message) *field {
	if f := d.compiler.field(root, specField); f.op == valueOp && f.kind == messageKind && !f.items {
		return f
	}
	return nil
}

// next is what is known of the version that is being decoded.
type next struct {
	version
	uid     uint64 // its hash; 0 if there is no uid, so that nothing can be remembered
	encoded uint64 // hash of the spec's bytes; 0 if there is none to speak of
	size    int    // of the encoded object
}

// compare prepares decoding data, of which old is an earlier version, or nil. It returns old if something may be taken over from
// it, and notes whether the spec may be. Where it is known what old was decoded from, nothing is to be noted or remembered.
func (d *decoder) compare(data []byte, old unsafe.Pointer, was []byte) (from unsafe.Pointer, n next) {
	d.sameSpec = false
	switch {
	case d.versions == nil:
		return nil, n
	case old != nil && was != nil:
		return old, n
	}
	if old != nil {
		d.warm(old)
	}
	n.size = len(data)
	seed := d.versions.summer.seed
	if uid := firstUID(data); len(uid) > 0 {
		n.uid = maphash.Bytes(seed, uid) | 1
	}
	spec, ok := d.encodedSpec(data)
	if ok {
		n.encoded = maphash.Bytes(seed, spec) | 1
	}
	last, known := d.versions.get(n.uid)
	switch {
	case old == nil || last.held > len(data):
		return nil, n
	case !known && d.random.Uint64()%decodedAnew == 0:
		return nil, n
	}
	n.held = last.held
	if !ok {
		return old, n
	}
	d.stats.Lookups++
	if known && last.spec == mix(n.encoded, d.sumSpec(old, len(data))) {
		d.sameSpec, n.spec = true, last.spec
	} else { // it may have been decoded elsewhere
		d.sameSpec = d.matches(d.plan(d.spec), unsafe.Add(old, d.spec.offset), spec, maxMatch)
	}
	if d.sameSpec {
		d.stats.Hits++
		d.stats.SharedBytes += uint64(len(spec))
	}
	return old, n
}

// remember makes the object the last version. own is the memory of the strings and times that it does not share with others.
func (d *decoder) remember(n next, object unsafe.Pointer, own int) {
	if d.versions == nil || n.uid == 0 {
		return
	}
	if n.held += own; n.encoded != 0 && n.spec == 0 {
		n.spec = mix(n.encoded, d.sumSpec(object, n.size))
	}
	d.versions.put(n.uid, n.version)
}

func (d *decoder) encodedSpec(data []byte) (spec []byte, ok bool) {
	if d.spec == nil {
		return nil, false
	}
	spec, ok = only(data, specField)
	return spec, ok && len(spec) >= minSpec
}

func (d *decoder) sumSpec(object unsafe.Pointer, size int) uint64 {
	return d.versions.summer.sum(d.specLayout, unsafe.Add(object, d.spec.offset), 1, size)
}

const (
	// cacheLine is how much memory a processor loads at a time, on nearly all of them.
	cacheLine = 64
	// maxWarm bounds what is read ahead of one list.
	maxWarm = 2 << 10
)

// warmList is where objects have a list, and the size of its elements.
type warmList struct{ offset, size uintptr }

// warmLists returns the lists of a type and of the messages in it.
func warmLists(root reflect.Type) (lists []warmList) {
	for i := range root.NumField() {
		switch sf := root.Field(i); {
		case sf.Type.Kind() == reflect.Slice:
			lists = append(lists, warmList{sf.Offset, sf.Type.Elem().Size()})
		case sf.Type.Kind() == reflect.Struct && isMessage(sf.Type):
			for in := range sf.Type.Fields() {
				if in.Type.Kind() == reflect.Slice {
					lists = append(lists, warmList{sf.Offset + in.Offset, in.Type.Elem().Size()})
				}
			}
		}
	}
	return lists
}

// warm reads from all over an object that is about to be compared. It was last used long ago, so that its memory comes slowly;
// asked for all at once it comes in the time of a few waits, where comparing would wait for one line after the
// other. That makes an event about a tenth cheaper.
func (d *decoder) warm(object unsafe.Pointer) {
	d.warmth += readLines(object, d.typ.Size())
	for _, l := range d.warmed {
		slice := (*header)(unsafe.Add(object, l.offset))
		d.warmth += readLines(slice.data, min(uintptr(slice.len)*l.size, maxWarm))
	}
}

// readLines reads a byte of each cache line of the n bytes at p. The sum means nothing, but keeps the compiler from leaving
// the reads out.
func readLines(p unsafe.Pointer, n uintptr) (sum byte) {
	for i := uintptr(0); i < n; i += cacheLine {
		sum += *(*byte)(unsafe.Add(p, i))
	}
	return sum
}
