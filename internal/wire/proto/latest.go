package proto

import (
	"hash/maphash"
	"maps"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// specField is the number of the spec in nearly all types that have one.
const specField = 2

// latest remembers the last value of each object, by uid. Most changes of an object leave most of it as it was; the new value
// then takes that over from the old one, and nothing of it is decoded or allocated. Whether the spec is the same, which is
// the largest part and the one that changes least, a hash of its bytes tells. The rest is compared as it is decoded,
// so that a part that somebody wrote to is decoded anew.
//
// It keeps the last value of an object alive, which is the one that a cache holds, until the object is gone: by Forget, or by
// a list that does not have it. How much a value keeps alive of the ones before it is bounded, see version.held.
type latest struct {
	seed1, seed2 maphash.Seed
	objects      map[string]version // by uid, in the memory of the object
	// before has the objects that the running list has not told of yet; nil when no list is running.
	before map[string]version
}

// version is the last value of an object.
type version struct {
	// object points to a value of the root type, which nobody writes to.
	object unsafe.Pointer
	spec   specHash
	// held is the memory in bytes of all blocks of strings and arrays of times that object may refer to.
	//
	// A string that is taken over keeps the whole block alive that it is in, though the rest of that may have been
	// replaced since. Every version adds a block with what is new in it, and in the worst case all of them stay.
	// When they are larger than the encoded object, a version is decoded without taking anything over, and they
	// all go. For a pod that becomes ready and unready, that is about every fiftieth version.
	held int
}

// specHash stands for the bytes of a spec: two independently and unguessably seeded hashes. It is zero without a spec.
type specHash struct{ hash1, hash2 uint64 }

// versionBytes is roughly what a version takes, with its entry in the map.
const versionBytes = 80

func newLatest() *latest {
	return &latest{seed1: maphash.MakeSeed(), seed2: maphash.MakeSeed(), objects: map[string]version{}}
}

// specOf returns the plan of the spec of root, nil if root has none that is a message held by value.
func specOf(root *message) *field {
	if f := root.field(specField); f != nil && f.op == valueOp && f.kind == messageKind && !f.items {
		return f
	}
	return nil
}

// of returns the last version of an object, the zero version if there is none.
func (l *latest) of(uid []byte) version {
	if v, ok := l.objects[string(uid)]; ok {
		return v
	}
	return l.before[string(uid)]
}

func (l *latest) hash(spec []byte) specHash {
	return specHash{maphash.Bytes(l.seed1, spec), maphash.Bytes(l.seed2, spec)}
}

// versionBefore returns the version from which the object in data can take over what it has too, the zero version if there is
// none, and the hash of the object's spec. It notes whether the two have the same spec. What the version says is compared,
// so that it does no harm should it be that of another object.
func (d *decoder) versionBefore(data []byte) (last version, hash specHash) {
	if d.latest == nil {
		return last, hash
	}
	if v := d.latest.of(firstUID(data)); v.object != nil && v.held <= len(data) {
		last = v
		d.warm(last.object)
	}
	spec, ok := only(data, specField)
	if !ok || d.spec == nil {
		return last, hash
	}
	hash = d.latest.hash(spec)
	d.stats.Lookups++
	if last.object != nil && last.spec == hash {
		d.sameSpec = true
		d.stats.Hits++
		d.stats.SharedBytes += uint64(len(spec))
	}
	return last, hash
}

// remember makes the value at p the last one of its object. held is the memory of the blocks and times that it may refer to.
func (d *decoder) remember(p unsafe.Pointer, spec specHash, held int) {
	if uid := d.uidOf(p); uid != "" {
		d.latest.objects[uid] = version{object: p, spec: spec, held: held} // the key is replaced as well
	}
}

// uidOf returns the uid of the value at p, in its memory.
func (d *decoder) uidOf(p unsafe.Pointer) string {
	// Safe because identified says that field 1 of the root type is an ObjectMeta.
	return string((*metav1.ObjectMeta)(unsafe.Add(p, d.root.field(1).offset)).UID)
}

// Forget drops what is kept of an object that is gone. Like the methods below, it may be called from any goroutine.
func (dec *Decoder[T]) Forget(uid string) {
	dec.withLatest(func(l *latest) {
		delete(l.objects, uid)
		delete(l.before, uid)
	})
}

// BeginList says that a list is about to tell of all objects again: by decoding them, or by Keep. EndList ends it.
func (dec *Decoder[T]) BeginList() {
	dec.withLatest(func(l *latest) {
		if l.before == nil {
			l.before = l.objects
		} else {
			maps.Copy(l.before, l.objects) // what a list that was broken off had not told of is there still
		}
		l.objects = make(map[string]version, len(l.before))
	})
}

// Keep says that a running list has an object that needed no decoding.
func (dec *Decoder[T]) Keep(uid []byte) {
	dec.withLatest(func(l *latest) {
		if v, ok := l.before[string(uid)]; ok {
			l.objects[dec.d.uidOf(v.object)] = v
		}
	})
}

// EndList drops what is kept of the objects that the list has not told of.
func (dec *Decoder[T]) EndList() { dec.withLatest(func(l *latest) { l.before = nil }) }

func (dec *Decoder[T]) withLatest(f func(*latest)) {
	dec.mu.Lock()
	defer dec.mu.Unlock()
	if dec.d.latest != nil {
		f(dec.d.latest)
	}
}
