package deltafifo

import "github.com/tidings/tidings/object"

// smallBuffer is the capacity that is always worth keeping.
const smallBuffer = 64

// keepsRoom says whether room for so many entries is worth keeping when so few were used. After a burst the
// first small use says no.
func keepsRoom(room, used int) bool {
	return room <= smallBuffer || room/4 <= used
}

// buffers lets the queue and its consumer use the same memory in turn.
type buffers[T object.Object] struct {
	spare []object.Delta[T] // empty, all its room cleared
	lent  []object.Delta[T] // what the consumer reads until its next Pop
}

// get returns an empty buffer, which may be nil.
func (b *buffers[T]) get() []object.Delta[T] {
	s := b.spare
	b.spare = nil
	return s
}

// put takes a buffer that nobody uses any more. It keeps the largest one.
func (b *buffers[T]) put(s []object.Delta[T]) {
	if cap(s) > cap(b.spare) && keepsRoom(cap(s), len(s)) {
		clear(s) // or it would keep objects alive
		b.spare = s[:0]
	}
}

// lend remembers what the consumer reads.
func (b *buffers[T]) lend(s []object.Delta[T]) { b.lent = s }

// giveBack ends the consumer's turn.
func (b *buffers[T]) giveBack() {
	b.put(b.lent)
	b.lent = nil
}
