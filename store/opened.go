package store

import (
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"
)

// opened finds opened objects that somebody still holds, by the numbers of their entries. It keeps no object alive. A weak pointer
// in each entry would cost two more heap objects per folded one, which the garbage collector has to visit.
type opened struct {
	last   atomic.Uint64 // the last number given to an entry
	count  atomic.Int64  // of all shards
	shards [16]openedShard

	tidying sync.Mutex             // held while tidying
	since   weak.Pointer[[32]byte] // cleared by the first garbage collection after the last tidying
}

type openedShard struct {
	mu      sync.Mutex // held for a lookup, or to drop unheld objects
	objects map[uint64]weak.Pointer[byte]
	full    int // size at which unheld objects are dropped
}

// minOpened is the minimum of full.
const minOpened = 32

// openedBytes estimates the memory per object in the table: its place, a third of which is empty, and the runtime's part of a weak pointer.
const openedBytes = 40

// bytes estimates the memory of the table.
func (o *opened) bytes() int64 { return o.count.Load() * openedBytes }

// number returns the number of a new entry.
func (o *opened) number() uint64 { return o.last.Add(1) }

func (o *opened) shard(n uint64) *openedShard { return &o.shards[n%uint64(len(o.shards))] }

// get returns the object of the entry with this number, nil if nobody holds it.
func (o *opened) get(n uint64) unsafe.Pointer {
	s := o.shard(n)
	s.mu.Lock()
	p := s.objects[n]
	s.mu.Unlock()
	return unsafe.Pointer(p.Value())
}

// put registers an object for the entry, unless somebody holds one. It returns the registered object.
func (o *opened) put(n uint64, object unsafe.Pointer) unsafe.Pointer {
	s := o.shard(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.objects[n]; ok {
		if other := p.Value(); other != nil {
			return unsafe.Pointer(other)
		}
	}
	before := len(s.objects)
	if before >= s.full {
		s.drop()
	}
	s.objects[n] = weak.Make((*byte)(object))
	o.count.Add(int64(len(s.objects) - before))
	return object
}

// tidy drops unheld objects from shards where they are the majority. It does so only after a garbage collection: without one, no more are known.
func (o *opened) tidy() {
	if !o.tidying.TryLock() {
		return
	}
	defer o.tidying.Unlock()
	if o.since.Value() != nil {
		return
	}
	o.since = weak.Make(new([32]byte))
	for i := range o.shards {
		o.count.Add(-int64(o.shards[i].tidy()))
	}
}

// tidy drops unheld objects if they are the majority of many, and returns their number.
func (s *openedShard) tidy() (dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, before := 0, len(s.objects)
	for _, p := range s.objects {
		if p.Value() != nil {
			held++
		}
	}
	if before <= minOpened || held > before/2 {
		return 0
	}
	s.drop()
	return before - len(s.objects)
}

// drop drops unheld objects. Their number is known only after a garbage collection, so full shrinks in steps.
func (s *openedShard) drop() {
	kept := make(map[uint64]weak.Pointer[byte])
	for n, p := range s.objects {
		if p.Value() != nil {
			kept[n] = p
		}
	}
	s.objects, s.full = kept, max(minOpened, 2*len(kept), s.full/2)
}
