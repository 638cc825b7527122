// Package guard finds writes to objects that are shared and read-only. It compares fingerprints of
// their contents, of a few objects at a time, so that it is cheap enough for production. It knows
// no informer: whoever uses it says when objects come, change and are delivered.
//
//  1. Sampled and Watch compare an object before and after one in EveryDelivery calls of a handler.
//  2. Keep holds one in EveryChange objects that have changed, and looks at it again when Kept others have come.
//  3. Arriving, Listed, Changing, Forget, Visit and LookAtAll work by time: they remember the
//     fingerprints of up to Prints objects, without keeping these alive, and look at each again when
//     it is replaced, and every few minutes.
//  4. Opened and Dropped do the same for objects that the cache does not keep in memory: see there.
package guard

import (
	"slices"
	"sync"

	"github.com/tidings/tidings/object"
)

// How often a Sampler looks. Each look costs about one walk over an object.
const (
	EveryDelivery = 1024 // one in this many deliveries of a handler is checked before and after
	EveryChange   = 512  // one in this many changes is kept and checked later
	Kept          = 16   // how many changed objects are kept at a time
)

// Finding is an object that was written to.
type Finding struct {
	Key object.Key
	// Handler is the handler that was running meanwhile; empty if none is known.
	Handler string
}

// Sampler looks for writes. Its methods may be called from any goroutine; no lock is held while
// they call a function. The methods of a nil Sampler do nothing.
type Sampler struct {
	report  func(Finding)
	current func(object.Key) (object.Object, bool)

	mu      sync.Mutex
	changes uint64
	kept    []sample
	next    int // index of the kept sample to check and replace next
	prints  prints
	opened  opened
	spoiled []object.Object // the latest that were found, until Forget: up to Kept
}

// sample is a kept object with its key and fingerprint when it was taken. The methods of one that
// was written to may panic.
type sample struct {
	key object.Key
	obj object.Object
	sum uint64
}

// New returns a Sampler that calls report for what it finds. current returns the object that is in
// the cache now, if it is in memory.
func New(report func(Finding), current func(object.Key) (object.Object, bool)) *Sampler {
	return &Sampler{report: report, current: current, prints: newPrints()}
}

// Sampled reports whether to Watch the n-th delivery of a handler. The first one is watched.
func (s *Sampler) Sampled(n uint64) bool { return s != nil && n%EveryDelivery == 1 }

// Watch takes the fingerprint of obj. The returned function compares it, and blames the handler.
func (s *Sampler) Watch(obj object.Object, key object.Key) func(handler string) {
	before := Fingerprint(obj)
	return func(handler string) {
		if sum := Fingerprint(obj); sum != before {
			s.found(Finding{Key: key, Handler: handler}, obj, sum)
		}
	}
}

// Keep counts n changes, the last of which brings obj, before anybody else can have it. One in
// EveryChange is kept, and the object whose place it takes is checked.
func (s *Sampler) Keep(obj object.Object, n int) {
	if s == nil || !s.due(n) {
		return
	}
	before, ok := s.exchange(sample{key: object.KeyOf(obj), obj: obj, sum: Fingerprint(obj)})
	if ok {
		s.check(before)
	}
}

// due counts n changes and reports whether one of them should be kept.
func (s *Sampler) due(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.changes / EveryChange
	s.changes += uint64(n)
	return s.changes/EveryChange != before
}

// exchange stores a sample, and returns the one that it replaces, if any.
func (s *Sampler) exchange(taken sample) (before sample, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) < Kept {
		s.kept = append(s.kept, taken)
		return before, false
	}
	before, s.kept[s.next] = s.kept[s.next], taken
	s.next = (s.next + 1) % Kept
	return before, true
}

// Held returns how many objects the Sampler keeps alive that may no longer be in the cache, which still has this many of
// those that were opened.
func (s *Sampler) Held(opened int) int {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.kept) + len(s.spoiled) + max(0, len(s.opened.samples)-opened)
}

// CheckAll looks at every object for the last time.
func (s *Sampler) CheckAll() {
	if s == nil {
		return
	}
	for _, key := range s.keys() {
		s.Changing(key)
	}
	for _, k := range s.takeOpened(func(*openedSample) bool { return true }) {
		s.check(k.sample)
	}
	s.mu.Lock()
	kept := s.kept
	s.kept, s.next = nil, 0
	s.mu.Unlock()
	for _, k := range kept {
		s.check(k)
	}
	s.mu.Lock()
	s.spoiled = nil
	s.mu.Unlock()
}

func (s *Sampler) check(k sample) {
	if sum := Fingerprint(k.obj); sum != k.sum {
		s.found(Finding{Key: k.key}, k.obj, sum)
	}
}

// found reports an object that was written to, once: its fingerprint is forgotten, or is now the one given. It is kept
// until the next list, which puts it right, so that those who use it hear of that.
func (s *Sampler) found(f Finding, obj object.Object, sum uint64) {
	s.mu.Lock()
	s.prints.remove(f.Key)
	for i := range s.kept {
		if addressOf(s.kept[i].obj) == addressOf(obj) {
			s.kept[i].sum = sum
		}
	}
	s.opened.setSum(obj, sum)
	if s.spoiled = append(s.spoiled, obj); len(s.spoiled) > Kept {
		s.spoiled = slices.Delete(s.spoiled, 0, 1)
	}
	s.mu.Unlock()
	s.report(f)
}
