package workqueue

// Priority decides which items go first. The zero value is Normal.
type Priority int8

// The priorities. Other values count as the nearest one.
const (
	// Low is for work that is not urgent: initial lists, resyncs.
	Low Priority = -1
	// Normal is for changes.
	Normal Priority = 0
	// High is for items that must not queue behind a burst of changes.
	High Priority = 1
)

// level is a priority as an index; 0 is the lowest.
type level int8

const levels = 3

func (p Priority) level() level {
	return level(min(max(p, Low), High) - Low)
}

func (l level) priority() Priority {
	return Priority(l) + Low
}

// maxPassed is how many items of higher priority may be handed out in a row while one of a lower priority waits.
const maxPassed = 15

// flow holds the waiting entries of one flow, in first-come order for each level.
type flow[T comparable] struct {
	name string
	// entries counts the entries that point here, so that a flow without any can be removed.
	entries int
	levels  [levels]flowLevel[T]
}

type flowLevel[T comparable] struct {
	waiting list[T]
	// queued is set while the flow is in the level's queue; next is then the flow after it.
	queued bool
	next   *flow[T]
}

// list is a doubly linked list of entries. The zero value is an empty list.
type list[T comparable] struct {
	first, last *entry[T]
	len         int
}

func (l *list[T]) pushBack(e *entry[T]) {
	e.prev, e.next = l.last, nil
	if l.last == nil {
		l.first = e
	} else {
		l.last.next = e
	}
	l.last = e
	l.len++
}

func (l *list[T]) remove(e *entry[T]) {
	if e.prev == nil {
		l.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
	l.len--
}

// flowQueue holds the flows of one level in the order of their turns. Invariant: each flow with entries waiting at the
// level is in it. A flow whose last entry was raised to another level may also be in it, until its turn.
type flowQueue[T comparable] struct {
	first, last *flow[T]
	waiting     int // number of entries in all flows
	// passed counts the items of higher levels handed out, while entries were waiting here, since
	// this level was last served.
	passed int
}

// schedule decides which waiting entry goes next. The zero value is empty.
type schedule[T comparable] struct {
	queues [levels]flowQueue[T]
}

func (s *schedule[T]) len() int {
	n := 0
	for i := range s.queues {
		n += s.queues[i].waiting
	}
	return n
}

// push puts the entry at the end of its flow at the level.
func (s *schedule[T]) push(e *entry[T], at level) {
	e.level, e.waiting = at, true
	l, f := &s.queues[at], e.flow
	f.levels[at].waiting.pushBack(e)
	l.waiting++
	if !f.levels[at].queued {
		l.append(f, at)
	}
}

// raise moves a waiting entry to a higher level, where it goes to the end of its flow.
func (s *schedule[T]) raise(e *entry[T], to level) {
	s.queues[e.level].waiting--
	e.flow.levels[e.level].waiting.remove(e)
	s.push(e, to)
}

// pop removes and returns the entry that goes next, or returns nil if none is waiting.
func (s *schedule[T]) pop() *entry[T] {
	at, ok := s.choose()
	if !ok {
		return nil
	}
	l := &s.queues[at]
	for {
		f := l.first
		waiting := &f.levels[at].waiting
		e := waiting.first
		if e != nil {
			waiting.remove(e)
			e.waiting = false
			l.waiting--
		}
		if waiting.first == nil || f != l.last {
			l.endTurn(at)
		}
		if e != nil {
			return e
		}
	}
}

// choose returns the highest level with waiting entries, unless a lower one has been passed over too often.
// Of two levels that have, it chooses the lower one, which has fewer other chances.
func (s *schedule[T]) choose() (level, bool) {
	chosen := -1
	for i := range s.queues {
		if s.queues[i].waiting > 0 && (chosen < 0 || s.queues[chosen].passed < maxPassed) {
			chosen = i
		}
	}
	if chosen < 0 {
		return 0, false
	}
	s.queues[chosen].passed = 0
	for i := range chosen {
		if s.queues[i].waiting > 0 {
			s.queues[i].passed++
		}
	}
	return level(chosen), true
}

func (l *flowQueue[T]) append(f *flow[T], at level) {
	f.levels[at].queued = true
	if l.last == nil {
		l.first = f
	} else {
		l.last.levels[at].next = f
	}
	l.last = f
}

// endTurn moves the first flow to the end of the queue, or removes it if it has no more waiting entries.
func (l *flowQueue[T]) endTurn(at level) {
	f := l.first
	fl := &f.levels[at]
	l.first = fl.next
	if l.first == nil {
		l.last = nil
	}
	fl.next, fl.queued = nil, false
	if fl.waiting.first != nil {
		l.append(f, at)
	}
}
