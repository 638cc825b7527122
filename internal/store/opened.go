package store

import (
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"
)

// opened finds opened objects that somebody still holds, by the numbers of their entries. It keeps
// no object alive. A weak pointer in each entry would cost two more heap objects per folded one,
// which the garbage collector has to visit.
type opened struct {
	last      atomic.Uint64 // the last number given to an entry
	count     atomic.Int64  // of all shards
	shards    [16]openedShard
	scheduled atomic.Bool // tidy will be called after the next garbage collection
	// survivors is how many somebody but the store's slots held after the last one, and collections the number of these.
	survivors   atomic.Int64
	collections atomic.Uint64
}

type openedShard struct {
	mu      sync.Mutex // held for a lookup, or to drop unheld objects
	objects map[uint64]weak.Pointer[byte]
	most    int // the most objects that this map has had
	// stored are those of them that are open in the store.
	stored map[uint64]struct{}
}

// minOpened is up to how many objects of a shard tidy leaves alone.
const minOpened = 32

// openedBytes estimates the memory per object in the table: its place, a third of which is empty,
// and the runtime's part of a weak pointer.
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
	if !o.scheduled.Load() {
		o.scheduleTidy()
	}
	s := o.shard(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.objects[n]; ok {
		if other := p.Value(); other != nil {
			return unsafe.Pointer(other)
		}
	}
	if s.objects == nil {
		s.objects = make(map[uint64]weak.Pointer[byte])
	}
	before := len(s.objects)
	s.objects[n] = weak.Make((*byte)(object))
	s.most = max(s.most, len(s.objects))
	o.count.Add(int64(len(s.objects) - before))
	return object
}

// scheduleTidy has tidy called after each garbage collection while there are objects.
//
// No other time would do: following a weak pointer while the collector marks keeps its object for
// another cycle, since somebody may hold it now. A walk over the table would then keep all the
// objects that nobody holds.
func (o *opened) scheduleTidy() {
	if !o.scheduled.CompareAndSwap(false, true) {
		return
	}
	runtime.AddCleanup(new([32]byte), func(w weak.Pointer[opened]) {
		o := w.Value()
		if o == nil {
			return
		}
		o.scheduled.Store(false)
		if o.tidy(); o.count.Load() > 0 {
			o.scheduleTidy()
		}
	}, weak.Make(o))
}

// tidy drops unheld objects if there are many.
func (o *opened) tidy() {
	survivors := 0
	for i := range o.shards {
		dropped, held := o.shards[i].tidy()
		o.count.Add(-int64(dropped))
		survivors += held
	}
	o.survivors.Store(int64(survivors))
	o.collections.Add(1)
}

// nowStored says that the object of the entry with this number is open in the store from now on.
func (o *opened) nowStored(n uint64) {
	s := o.shard(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stored == nil {
		s.stored = make(map[uint64]struct{})
	}
	s.stored[n] = struct{}{}
}

// tidy drops unheld objects if there are many, and returns their number, and how many of the others the store does not
// hold by itself.
func (s *openedShard) tidy() (dropped, held int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.objects)
	if before <= minOpened {
		return 0, before - len(s.stored)
	}
	maps.DeleteFunc(s.objects, func(_ uint64, p weak.Pointer[byte]) bool { return p.Value() == nil })
	if n := len(s.objects); n < s.most/4 { // the map does not shrink by itself
		smaller := make(map[uint64]weak.Pointer[byte], n)
		maps.Copy(smaller, s.objects)
		s.objects, s.most = smaller, n
	}
	maps.DeleteFunc(s.stored, func(n uint64, _ struct{}) bool {
		_, ok := s.objects[n]
		return !ok
	})
	if len(s.stored) == 0 {
		s.stored = nil
	}
	return before - len(s.objects), len(s.objects) - len(s.stored)
}
