package deltafifo

// smallBuffer is the capacity that is always worth keeping.
const smallBuffer = 64

// worthKeeping reports whether a buffer with the given capacity is worth keeping if only used elements of it were used.
func worthKeeping(room, used int) bool { return room <= smallBuffer || room/4 <= used }

// list is a first-in, first-out list. It releases memory as it gets shorter.
type list[E any] struct {
	// items[head:] are the elements; items[:head] are zero.
	items []E
	head  int
}

func (l *list[E]) len() int { return len(l.items) - l.head }

// first returns the oldest element, nil if there is none. It is valid until the next push or pop.
func (l *list[E]) first() *E {
	if l.len() == 0 {
		return nil
	}
	return &l.items[l.head]
}

// last returns the newest element, nil if there is none. It is valid until the next push or pop.
func (l *list[E]) last() *E {
	if l.len() == 0 {
		return nil
	}
	return &l.items[len(l.items)-1]
}

func (l *list[E]) push(e E) {
	if len(l.items) == cap(l.items) && l.head > l.len() {
		l.compact()
	}
	l.items = append(l.items, e)
}

// compact moves the elements to the front, or to a smaller slice.
func (l *list[E]) compact() {
	kept := l.items[l.head:]
	if !worthKeeping(cap(l.items), len(kept)) {
		l.items, l.head = append(make([]E, 0, 2*len(kept)+1), kept...), 0
		return
	}
	n := copy(l.items, kept)
	clear(l.items[n:])
	l.items, l.head = l.items[:n], 0
}

// pop removes and returns the oldest element. The list must not be empty.
func (l *list[E]) pop() E {
	var zero E
	e := l.items[l.head]
	l.items[l.head] = zero
	l.head++
	if l.head == len(l.items) {
		l.items, l.head = l.items[:0], 0
		if cap(l.items) > smallBuffer {
			l.items = nil
		}
	}
	return e
}
