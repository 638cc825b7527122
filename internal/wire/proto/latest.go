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
	objects      map[string]*version // by uid
	// before has the objects that the running list has not told of yet; nil when no list is running.
	before map[string]*version
}

// version is the last value of an object.
type version struct {
	// object points to a value of the root type, which nobody writes to.
	object unsafe.Pointer
	uid    string // of the object, in its memory
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
const versionBytes = 112

func newLatest() *latest {
	return &latest{seed1: maphash.MakeSeed(), seed2: maphash.MakeSeed(), objects: map[string]*version{}}
}

// specOf returns the plan of the spec of root, nil if root has none that is a message held by value.
func specOf(root *message) *field {
	if f := root.field(specField); f != nil && f.op == valueOp && f.kind == messageKind && !f.items {
		return f
	}
	return nil
}

// value returns the object of a version, nil for none.
func (v *version) value() unsafe.Pointer {
	if v == nil {
		return nil
	}
	return v.object
}

// of returns the last version of an object, nil if there is none.
func (l *latest) of(uid []byte) *version {
	if v := l.objects[string(uid)]; v != nil {
		return v
	}
	return l.before[string(uid)]
}

// set makes v the last version of its object.
func (l *latest) set(v *version) { l.objects[v.uid] = v }

func (l *latest) hash(spec []byte) specHash {
	return specHash{maphash.Bytes(l.seed1, spec), maphash.Bytes(l.seed2, spec)}
}

// versionBefore returns the version from which the object in data can take over what it has too, nil if there is none, and
// the hash of the object's spec. It notes whether the two have the same spec. What the version says is compared,
// so that it does no harm should it be that of another object.
func (d *decoder) versionBefore(data []byte) (last *version, hash specHash) {
	if d.latest == nil {
		return nil, hash
	}
	if v := d.latest.of(firstUID(data)); v != nil && v.held <= len(data) {
		last = v
		d.warm(last.object)
	}
	spec, ok := only(data, specField)
	if !ok || d.spec == nil {
		return last, hash
	}
	hash = d.latest.hash(spec)
	d.stats.Lookups++
	if last != nil && last.spec == hash {
		d.sameSpec = true
		d.stats.Hits++
		d.stats.SharedBytes += uint64(len(spec))
	}
	return last, hash
}

// remember makes the value at p the last one of its object. last is the one it was decoded from, or nil; own is the memory
// of p's own block and times.
func (d *decoder) remember(p unsafe.Pointer, last *version, spec specHash, own int) {
	// Safe because identified says that field 1 of the root type is an ObjectMeta.
	meta := (*metav1.ObjectMeta)(unsafe.Add(p, d.root.field(1).offset))
	uid := string(meta.UID)
	switch {
	case uid == "":
	case last == nil || last.uid != uid:
		d.latest.set(&version{object: p, uid: uid, spec: spec, held: own})
	default:
		*last = version{object: p, uid: uid, spec: spec, held: last.held + own}
		if d.latest.before != nil {
			d.latest.set(last)
		}
	}
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
		l.objects = make(map[string]*version, len(l.before))
	})
}

// Keep says that a running list has an object that needed no decoding.
func (dec *Decoder[T]) Keep(uid []byte) {
	dec.withLatest(func(l *latest) {
		if v, ok := l.before[string(uid)]; ok {
			l.set(v)
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
