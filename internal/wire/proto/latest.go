package proto

import (
	"hash/maphash"
	"maps"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// specField is the number of the spec in nearly all types that have one.
const specField = 2

// latest remembers what was decoded last of each object, by uid. Most changes of an object leave its spec as it was; the new
// value then takes the spec over from the old one, and nothing of it is decoded or allocated.
//
// It keeps the last value of an object alive, which is the one that a cache holds, until the object is gone: by Forget, or by
// a list that does not have it. A value that took over a spec keeps the strings of the one that it comes from alive, about
// a kilobyte.
type latest struct {
	seed1, seed2 maphash.Seed
	objects      map[string]version // by uid
	// before has the objects that the running list has not told of yet; nil when no list is running.
	before map[string]version
}

// version is the last value of an object.
type version struct {
	spec specHash
	// object points to a value of the root type, which nobody writes to.
	object unsafe.Pointer
	uid    string // of the object, in its memory
}

// specHash stands for the bytes of a spec: two independently and unguessably seeded hashes.
type specHash struct{ hash1, hash2 uint64 }

// versionBytes is roughly what an entry of the map takes.
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

// look finds the spec in data and returns its hash, and the value to take it over from if that has the same. ok is false if
// data has no single spec.
func (l *latest) look(uid, data []byte) (hash specHash, from unsafe.Pointer, size int, ok bool) {
	spec, ok := only(data, specField)
	if !ok || len(uid) == 0 {
		return hash, nil, 0, false
	}
	hash = specHash{maphash.Bytes(l.seed1, spec), maphash.Bytes(l.seed2, spec)}
	last, known := l.objects[string(uid)]
	if !known {
		last, known = l.before[string(uid)]
	}
	if known && last.spec == hash {
		from = last.object
	}
	return hash, from, len(spec), true
}

// takeSpec looks for a value from which the spec can be taken over, and makes the decoder do so.
func (d *decoder) takeSpec(data []byte) (hash specHash, ok bool) {
	if d.latest == nil {
		return hash, false
	}
	meta, _ := d.peek(data)
	hash, from, size, ok := d.latest.look(meta.UID, data)
	if !ok {
		return hash, false
	}
	d.stats.Lookups++
	if from != nil {
		d.stats.Hits++
		d.stats.SharedBytes += uint64(size)
		d.given = unsafe.Add(from, d.spec.offset)
	}
	return hash, true
}

// remember makes the value at p the last one of its object.
func (d *decoder) remember(p unsafe.Pointer, hash specHash) {
	// Safe because identified says that field 1 of the root type is an ObjectMeta.
	meta := (*metav1.ObjectMeta)(unsafe.Add(p, d.root.field(1).offset))
	if uid := string(meta.UID); uid != "" {
		d.latest.objects[uid] = version{hash, p, uid}
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
		l.objects = make(map[string]version, len(l.before))
	})
}

// Keep says that a running list has an object that needed no decoding.
func (dec *Decoder[T]) Keep(uid []byte) {
	dec.withLatest(func(l *latest) {
		if v, ok := l.before[string(uid)]; ok {
			l.objects[v.uid] = v
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
