package workqueue

import "slices"

// keepGetters is how many getters that are not in use a queue keeps.
const keepGetters = 64

// getter is one call of Get that waits. The queue fills it and takes it off the waiting ones before it wakes it.
type getter[T comparable] struct {
	woken chan struct{} // has room for the one wake-up, so that nobody waits to send it
	item  T
	ok    bool // item is set; else the queue was shut down
}

// getters are the calls of Get that wait. The last one that came is served first: its stack is still warm.
type getters[T comparable] struct {
	waiting []*getter[T]
	spare   []*getter[T] // at most keepGetters
}

// add returns a getter that waits from now on.
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

// take takes the getter that is served next off the waiting ones, or returns nil if there is none.
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

// remove takes the getter off the waiting ones. It returns false if it was taken off before: it is being woken then.
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

// recycle takes back a getter that neither waits nor is read any more.
func (s *getters[T]) recycle(g *getter[T]) {
	if len(s.spare) < keepGetters {
		*g = getter[T]{woken: g.woken}
		s.spare = append(s.spare, g)
	}
}
