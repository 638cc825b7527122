package proto

import (
	"hash/maphash"
	"reflect"
	"unsafe"
)

// specField is the number of the spec in nearly all types that have one.
const specField = 2

// minSpec is the size in bytes from which hashing a spec is cheaper than comparing it.
const minSpec = 128

// version is what the decoder remembers of the last version of an object.
//
// The spec is the largest part of most objects and changes least, and comparing it with an encoding
// costs as much as decoding all the rest. If the hash of its bytes and the checksum of its memory
// are those of the previous version, it is reused as a whole. That is correct even if somebody has
// written to the object, or if it is a different object: the checksum covers memory addresses.
type version struct {
	spec uint64 // hash of the spec's bytes, mixed with the checksum of its memory; 0 if the object has no spec worth hashing
	// held is the memory in bytes of all string blocks and time arrays that the object may refer to.
	//
	// A reused string keeps its whole block alive, though the rest of the block may have been
	// replaced since. Every version adds a block with its new strings, and in the worst case all of
	// them stay. When they exceed the encoded object, a version is decoded without reusing
	// anything, which frees them all. For a pod that becomes ready and unready, that is about every
	// fiftieth version.
	held int
}

// versions remembers the last versions of objects, by the hash of their uids. It keeps nothing of
// the objects alive. Versions not used for a while, such as those of deleted objects, are dropped.
// A version whose predecessor is not remembered, because it was dropped or decoded elsewhere, is
// compared with that part by part, including the spec.
type versions struct {
	checksummer checksummer
	young, old  map[uint64]version
	uses        int // since the young generation began
	max         int // of each generation
}

const (
	// versionBytes is roughly the memory of a version in a map.
	versionBytes = 40
	// maxVersions bounds each of the two generations. If memory is bounded, a quarter of it is for both.
	maxVersions   = 1 << 19
	versionsShare = 4
	// A generation ends when it was used usesPerVersion times as often as there are versions;
	// minUses keeps it from being trivially short.
	usesPerVersion = 8
	minUses        = 1 << 12
)

// decodeAnewEvery: of the versions whose predecessor is not remembered, one in decodeAnewEvery, at
// random, reuses nothing. That bounds what they keep alive of earlier ones, which is not counted.
const decodeAnewEvery = 16

// newVersions returns a versions that may use a part of maxBytes; 0 means enough.
func newVersions(maxBytes int) *versions {
	vs := &versions{checksummer: newChecksummer(), young: map[uint64]version{}, max: maxVersions}
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

// len may count versions in both generations twice.
func (vs *versions) len() int { return len(vs.young) + len(vs.old) }

// specOf returns the plan of root's spec, or nil if it has none that is a message held by value.
func (d *decoder) specOf(root *message) *field {
	if f := d.compiler.field(root, specField); f.op == valueOp && f.kind == messageKind && !f.items {
		return f
	}
	return nil
}

// pendingVersion describes the version being decoded.
type pendingVersion struct {
	version
	uid     uint64 // hash of the uid; 0 if there is none, so that nothing can be remembered
	encoded uint64 // hash of the spec's bytes; 0 if there is no spec worth hashing
	size    int    // of the encoded object
}

// compare prepares decoding data. old is an earlier version, or nil. It returns old if parts of it
// may be reused, and sets sameSpec if the spec may be.
func (d *decoder) compare(data []byte, old unsafe.Pointer) (from unsafe.Pointer, n pendingVersion) {
	d.sameSpec = false
	if d.versions == nil {
		return nil, n
	}
	if old != nil {
		d.prefetch(old)
	}
	n.size = len(data)
	seed := d.versions.checksummer.seed
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
	case !known && d.random.Uint64()%decodeAnewEvery == 0:
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

// remember makes the object the last version. own is the memory of its unshared strings and times.
func (d *decoder) remember(n pendingVersion, object unsafe.Pointer, own int) {
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
	return d.versions.checksummer.sum(d.specLayout, unsafe.Add(object, d.spec.offset), 1, size)
}

const (
	// cacheLine is how much memory nearly all processors load at a time.
	cacheLine = 64
	// maxPrefetch bounds the bytes read ahead of one list.
	maxPrefetch = 2 << 10
)

// prefetchList is the offset of a list in objects, and the size of its elements.
type prefetchList struct{ offset, size uintptr }

// prefetchListsOf returns the lists of a type and of the messages directly in it.
func prefetchListsOf(root reflect.Type) (lists []prefetchList) {
	for i := range root.NumField() {
		switch sf := root.Field(i); {
		case sf.Type.Kind() == reflect.Slice:
			lists = append(lists, prefetchList{sf.Offset, sf.Type.Elem().Size()})
		case sf.Type.Kind() == reflect.Struct && isMessage(sf.Type):
			for in := range sf.Type.Fields() {
				if in.Type.Kind() == reflect.Slice {
					lists = append(lists, prefetchList{sf.Offset + in.Offset, in.Type.Elem().Size()})
				}
			}
		}
	}
	return lists
}

// prefetch touches the memory of an object that is about to be compared. It was last used long ago,
// so its cache lines are cold; requesting all of them at once overlaps the misses, while comparing
// would wait for one after another. That makes an event about a tenth cheaper.
func (d *decoder) prefetch(object unsafe.Pointer) {
	d.prefetchSum += readLines(object, d.typ.Size())
	for _, l := range d.prefetchLists {
		slice := (*header)(unsafe.Add(object, l.offset))
		d.prefetchSum += readLines(slice.data, min(uintptr(slice.len)*l.size, maxPrefetch))
	}
}

// readLines reads a byte of each cache line of the n bytes at p. The sum only keeps the compiler
// from removing the reads.
func readLines(p unsafe.Pointer, n uintptr) (sum byte) {
	for i := uintptr(0); i < n; i += cacheLine {
		sum += *(*byte)(unsafe.Add(p, i))
	}
	return sum
}
