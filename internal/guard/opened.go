package guard

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tidings/tidings/object"
)

// openedFor is for how long, at least, a sample of the opened objects is kept.
const openedFor = time.Second

// opened are samples of the objects that a cache has decoded for a reader. It keeps them alive, since the cache may
// not. The Sampler's lock guards them.
type opened struct {
	samples []openedSample // up to Kept, and those that were found when they were dropped
	seen    int            // how many objects they were chosen from, since then
	since   time.Time
}

type openedSample struct {
	sample
	at time.Time
}

// place returns the index of a sample that a new one may replace, len(samples) for none, so that all objects of the
// last second or two are as likely to be among them. ok is false if the new one is not chosen. A sample that was taken
// out leaves room for none: otherwise each object that is opened to be changed would be one, and be taken out again.
func (o *opened) place() (i int, ok bool) {
	o.seen++
	if i = rand.IntN(o.seen); len(o.samples) < Kept {
		return len(o.samples), i < Kept
	}
	return i, i < Kept
}

// chooseAnew begins another choice if this one is from enough time.
func (o *opened) chooseAnew(now time.Time) {
	if now.Sub(o.since) >= openedFor {
		o.seen, o.since = len(o.samples), now
	}
}

func (o *opened) setSum(obj object.Object, sum uint64) {
	for i := range o.samples {
		if addressOf(o.samples[i].obj) == addressOf(obj) {
			o.samples[i].sum = sum
		}
	}
}

// Opened says that obj was decoded for a reader, before that has it. A few such objects are kept, and looked at after a
// while, or when they are replaced; from then on their fingerprints are remembered like those of others. It reports
// nothing, since the reader may hold locks.
func (s *Sampler) Opened(key object.Key, obj object.Object) {
	if s == nil {
		return
	}
	i, before, ok := s.placeForOpened()
	if !ok || before.obj != nil && Fingerprint(before.obj) != before.sum {
		return // what is known to be written to stays
	}
	added := openedSample{sample{key: key, obj: obj, sum: Fingerprint(obj)}, time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch o := &s.opened; {
	case before.obj == nil && len(o.samples) < Kept:
		o.samples = append(o.samples, added)
	case i < len(o.samples) && o.samples[i].obj == before.obj:
		o.samples[i] = added
	}
}

// placeForOpened returns the place for the sample of an opened object, and which sample has it.
func (s *Sampler) placeForOpened() (i int, before sample, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok = s.opened.place(); ok && i < len(s.opened.samples) {
		before = s.opened.samples[i].sample
	}
	return i, before, ok
}

// Dropped says that the cache keeps obj no longer in memory, although somebody else may. If its fingerprint is
// remembered, it is looked at; what that finds is reported later, since a reader may call this.
func (s *Sampler) Dropped(obj object.Object) {
	if s == nil {
		return
	}
	key, p, ok := s.printOf(obj)
	if !ok || Fingerprint(obj) == p.sum {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prints.of[key] == p {
		s.prints.remove(key)
		s.opened.samples = append(s.opened.samples, openedSample{sample: sample{key: key, obj: obj, sum: p.sum}})
	}
}

// printOf returns the fingerprint that is remembered of an object.
func (s *Sampler) printOf(obj object.Object) (key object.Key, p print, ok bool) {
	address := addressOf(obj)
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, p := range s.prints.of {
		if p.address == address {
			return key, p, true
		}
	}
	return key, p, false
}

// takeOpened removes the samples for which is returns true, and returns them.
func (s *Sampler) takeOpened(is func(*openedSample) bool) (taken []openedSample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &s.opened
	for i := range o.samples {
		if is(&o.samples[i]) {
			taken = append(taken, o.samples[i])
		}
	}
	if len(taken) > 0 {
		o.samples = slices.DeleteFunc(o.samples, func(k openedSample) bool { return is(&k) })
	}
	return taken
}

// settleOpened looks at the samples that were kept for long enough. They are looked at again as long as the cache, or
// somebody else, has them in memory.
func (s *Sampler) settleOpened() {
	now := time.Now()
	due := s.takeOpened(func(k *openedSample) bool { return now.Sub(k.at) >= openedFor })
	s.mu.Lock()
	s.opened.chooseAnew(now)
	s.mu.Unlock()
	for _, k := range due {
		if sum := Fingerprint(k.obj); sum != k.sum {
			s.found(Finding{Key: k.key}, k.obj, sum)
		} else if address := addressOf(k.obj); address != 0 {
			s.put(k.key, sum, address)
		}
	}
}
