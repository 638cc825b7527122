package workqueue

import "slices"

// maxSpareGetters is the maximum number of unused getters that a queue keeps.
const maxSpareGetters = 64

// getter is a waiting call of Get. The queue fills it in and removes it from the waiting ones before waking it.
type getter[T comparable] struct {
	woken chan struct{} // has a buffer of one, so that waking never blocks
	item  T
	ok    bool // item is set; otherwise the queue was shut down
}

// getters holds the waiting calls of Get. The most recent one is served first, because its stack is
// still in the CPU's cache.
type getters[T comparable] struct {
	waiting []*getter[T]
	spare   []*getter[T] // at most maxSpareGetters
}

// add adds and returns a waiting getter.
func (s *getters[T]) add() *getter[T] {
	var g *getter[T]
	if n := len(s.spare); n > 0 {
		g, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		g = &getter[T]{woken: make(chan struct{}, 1)}
	}
	s.waiting = append(s.waiting, g)
	return g
}

// take removes and returns the waiting getter to be served next, or returns nil if there is none.
func (s *getters[T]) take() *getter[T] {
	n := len(s.waiting)
	if n == 0 {
		return nil
	}
	g := s.waiting[n-1]
	s.waiting[n-1] = nil
	s.waiting = s.waiting[:n-1]
	return g
}

// remove removes a waiting getter. It returns false if the getter does not wait any more, because it is being woken.
func (s *getters[T]) remove(g *getter[T]) bool {
	i := slices.Index(s.waiting, g)
	if i < 0 {
		return false
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return true
}

// wakeAll wakes all waiting getters without an item.
func (s *getters[T]) wakeAll() {
	for _, g := range s.waiting {
		g.woken <- struct{}{}
	}
	s.waiting = nil
}

// recycle keeps a getter that is no longer used for reuse.
func (s *getters[T]) recycle(g *getter[T]) {
	if len(s.spare) < maxSpareGetters {
		*g = getter[T]{woken: g.woken}
		s.spare = append(s.spare, g)
	}
}
