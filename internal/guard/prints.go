package guard

import (
	"iter"
	"reflect"
	"slices"
	"time"

	"github.com/tidings/tidings/object"
)

const (
	// Prints is how many fingerprints are remembered at a time. In a cache of no more objects,
	// those of all of them can be.
	Prints = 128
	// lookEvery is how often each of the fingerprints is looked at, unless there are fewer than few,
	// and takeEvery the minimum interval between fingerprints of changed objects.
	lookEvery = Prints * time.Second
	few       = 16
	takeEvery = time.Second / 2
	// most is how many looks may be made up for after a silence.
	most = 64
)

// prints are fingerprints of objects that were in the cache. The Sampler's lock guards them.
type prints struct {
	of    map[object.Key]print
	order []object.Key // their keys
	hand  int          // index in order of the key to look at next

	looked, taken time.Time // when the last look was due, and the last fingerprint of a changed object was taken
}

// print is the fingerprint of an object at an address, which does not keep it alive. An address is
// only compared while it cannot belong to a later object of the same key: see Forget.
type print struct {
	sum     uint64
	address uintptr
	index   int // in order
}

func newPrints() prints { return prints{of: map[object.Key]print{}, looked: time.Now()} }

// put adds the fingerprint of an object. It returns the key whose place it needs first, if there is no room.
func (p *prints) put(key object.Key, sum uint64, address uintptr) (inTheWay object.Key, full bool) {
	if have, ok := p.of[key]; ok {
		p.of[key] = print{sum, address, have.index}
		return key, false
	}
	if len(p.order) >= Prints {
		return p.order[p.hand%len(p.order)], true
	}
	key = key.Clone() // it is a part of the object
	p.of[key] = print{sum, address, len(p.order)}
	p.order = append(p.order, key)
	return key, false
}

func (p *prints) remove(key object.Key) {
	gone, ok := p.of[key]
	if !ok {
		return
	}
	delete(p.of, key)
	last := len(p.order) - 1
	if gone.index < last {
		moved := p.order[last]
		p.order[gone.index] = moved
		m := p.of[moved]
		m.index = gone.index
		p.of[moved] = m
	}
	p.order[last] = object.Key{}
	p.order = p.order[:last]
}

// Arriving says that obj is about to be in the cache, before anybody else can have it. At most
// twice a second its fingerprint is remembered. If that needs the place of another, that is looked
// at first.
func (s *Sampler) Arriving(key object.Key, obj object.Object) {
	if s == nil || !s.dueByTime() {
		return
	}
	s.remember(key, obj)
}

// dueByTime reports whether it is time for the fingerprint of a changed object.
func (s *Sampler) dueByTime() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.prints.taken) < takeEvery {
		return false
	}
	s.prints.taken = now
	return true
}

func (s *Sampler) remember(key object.Key, obj object.Object) {
	address := addressOf(obj)
	if address == 0 {
		return
	}
	s.put(key, Fingerprint(obj), address)
}

// put remembers a fingerprint. If there is no room, the object whose place it needs is looked at first.
func (s *Sampler) put(key object.Key, sum uint64, address uintptr) {
	for {
		s.mu.Lock()
		inTheWay, full := s.prints.put(key, sum, address)
		s.mu.Unlock()
		if !full {
			return
		}
		s.Changing(inTheWay)
	}
}

// Listed says that n objects are about to be in the cache, before anybody else can have them. The
// present ones are looked at, and the fingerprints of some new ones, spread evenly, are remembered.
func (s *Sampler) Listed(objects iter.Seq2[object.Key, object.Object], n int) {
	if s == nil || n == 0 {
		return
	}
	for _, key := range s.keys() {
		s.look(key)
	}
	s.Listing(objects, n)
}

// Listing is Listed for some of the n objects, without a look at present ones.
func (s *Sampler) Listing(objects iter.Seq2[object.Key, object.Object], n int) {
	if s == nil || n == 0 {
		return
	}
	i, taken := 0, 0
	for key, obj := range objects {
		if i*Prints >= taken*n && taken < Prints {
			taken++
			if !s.watches(key) {
				s.remember(key, obj)
			}
		}
		i++
	}
}

// keys returns the keys of all remembered fingerprints.
func (s *Sampler) keys() []object.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.prints.order)
}

// addressOf returns the address of an object, or 0 if it is not a pointer.
func addressOf(obj object.Object) uintptr {
	if v := reflect.ValueOf(obj); v.Kind() == reflect.Pointer {
		return v.Pointer()
	}
	return 0
}

// watches reports whether the fingerprint of the object under key is remembered.
func (s *Sampler) watches(key object.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.prints.of[key]
	return ok
}

// Changing says that the object under key is about to be replaced or deleted. If its fingerprint is
// remembered, it is looked at for the last time.
func (s *Sampler) Changing(key object.Key) {
	if s == nil {
		return
	}
	for _, o := range s.takeOpened(func(o *openedSample) bool { return o.key == key }) {
		s.check(o.sample)
	}
	if !s.watches(key) {
		return
	}
	s.look(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prints.remove(key)
}

// Forget drops the fingerprints of objects that are no longer in the cache, after a list or another
// change that Changing was not called for. Without it, a later object of the same key could be at
// the address of one that is gone.
func (s *Sampler) Forget() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.spoiled = nil
	s.mu.Unlock()
	for _, key := range s.keys() {
		obj, ok := s.current(key)
		s.mu.Lock()
		if p := s.prints.of[key]; !ok || p.address != addressOf(obj) {
			s.prints.remove(key)
		}
		s.mu.Unlock()
	}
}

// Visit looks at as many objects as the time since the last Visit allows, one after the other. Call
// it whenever there is an occasion.
func (s *Sampler) Visit() {
	if s == nil {
		return
	}
	s.settleOpened()
	for range s.allowed() {
		key, ok := s.nextKey()
		if !ok {
			return
		}
		s.look(key)
	}
}

// LookAtAll looks at every object whose fingerprint is remembered.
func (s *Sampler) LookAtAll() {
	if s == nil {
		return
	}
	s.settleOpened()
	for _, key := range s.keys() {
		s.look(key)
	}
}

// allowed returns how many looks are due.
func (s *Sampler) allowed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.prints
	every := lookEvery / time.Duration(max(len(p.order), few))
	n := time.Since(p.looked) / every
	p.looked = p.looked.Add(n * every)
	return min(int(n), most, len(p.order))
}

func (s *Sampler) nextKey() (key object.Key, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.prints
	if len(p.order) == 0 {
		return object.Key{}, false
	}
	p.hand = (p.hand + 1) % len(p.order)
	return p.order[p.hand], true
}

// Look looks at the object under key, if its fingerprint is remembered.
func (s *Sampler) Look(key object.Key) {
	if s != nil {
		s.look(key)
	}
}

// look compares the object under key with its fingerprint, and forgets that if the object was written to or replaced.
func (s *Sampler) look(key object.Key) {
	s.mu.Lock()
	p, ok := s.prints.of[key]
	s.mu.Unlock()
	if !ok {
		return
	}
	obj, present := s.current(key)
	if !present || addressOf(obj) != p.address {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.prints.of[key] == p {
			s.prints.remove(key)
		}
		return
	}
	if sum := Fingerprint(obj); sum != p.sum {
		s.found(Finding{Key: key}, obj, sum)
	}
}
