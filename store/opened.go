package store

import (
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"
)

// opened finds the objects that were opened and that somebody still holds, by the numbers of their entries. It keeps no object
// alive. A weak pointer in each entry would be two more objects for each folded one, which the garbage collector has to visit.
type opened struct {
	last   atomic.Uint64 // number that was given to an entry
	count  atomic.Int64  // of all objects
	shards [16]openedShard

	tidying sync.Mutex             // held by the one who tidies
	since   weak.Pointer[[32]byte] // is gone once the garbage was collected after that
}

type openedShard struct {
	mu      sync.Mutex // held for a lookup, or to drop what nobody holds any more
	objects map[uint64]weak.Pointer[byte]
	full    int // from how many objects on those are dropped that nobody holds
}

// minOpened is the least number for full.
const minOpened = 32

// openedBytes is about what an object takes in the table: its place, of which a third is empty, and what the runtime has for a weak pointer.
const openedBytes = 40

// bytes returns about what the table takes.
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

// put makes an object that of the entry, unless there is one that somebody holds. It returns which it is then.
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

// tidy forgets the objects that nobody holds where these are most of a shard, if the garbage was collected since it was called last: else nobody knows of more.
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

// tidy drops what nobody holds, if that is most of many, and returns how many these are.
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

// drop forgets the objects that nobody holds. How many that are is known after a garbage collection only, so full becomes smaller in steps.
func (s *openedShard) drop() {
	kept := make(map[uint64]weak.Pointer[byte])
	for n, p := range s.objects {
		if p.Value() != nil {
			kept[n] = p
		}
	}
	s.objects, s.full = kept, max(minOpened, 2*len(kept), s.full/2)
}
