package proto

import (
	"sync"
	"time"
	"unsafe"
)

// maxTimes is the number of times of one object that share an array.
const maxTimes = 64

// arena collects what is deferred to the end of an object: its own strings and byte slices, and the
// times it points to. Each of the two then takes one allocation of the exact size. Nothing is
// deferred for an object whose owner may remove parts of it: the others would keep the memory of
// all.
//
// Until then the strings are empty and the times are in the arena, so a value with deferred parts
// must not be copied. That holds because values for the table are decoded without the arena, and
// because no slice or struct of an object moves while it is decoded.
type arena struct {
	bytes   []byte
	pending []pending
	times   [maxTimes]time.Time
	holders [maxTimes]*unsafe.Pointer
	timed   int
}

// pending is a string or byte slice that waits for its place in the block. One of the two pointers is set.
type pending struct {
	text     *string
	raw      *[]byte
	from, to int
}

// arenas are the ones not in use.
var arenas = sync.Pool{New: func() any { return new(arena) }}

// text defers *s = string(b).
func (a *arena) text(s *string, b []byte) {
	from := len(a.bytes)
	a.bytes = append(a.bytes, b...)
	a.pending = append(a.pending, pending{text: s, from: from, to: len(a.bytes)})
}

// joined defers *s = before + between + behind.
func (a *arena) joined(s *string, before string, between []byte, behind string) {
	from := len(a.bytes)
	a.bytes = append(append(append(a.bytes, before...), between...), behind...)
	a.pending = append(a.pending, pending{text: s, from: from, to: len(a.bytes)})
}

// raw defers *s = clone of b.
func (a *arena) raw(s *[]byte, b []byte) {
	from := len(a.bytes)
	a.bytes = append(a.bytes, b...)
	a.pending = append(a.pending, pending{raw: s, from: from, to: len(a.bytes)})
}

// rawJoined defers *s = before + between + behind.
func (a *arena) rawJoined(s *[]byte, before, between, behind []byte) {
	from := len(a.bytes)
	a.bytes = append(append(append(a.bytes, before...), between...), behind...)
	a.pending = append(a.pending, pending{raw: s, from: from, to: len(a.bytes)})
}

// time points *holder to a zero time and returns that. It returns nil if the arena has no more room.
func (a *arena) time(holder *unsafe.Pointer) unsafe.Pointer {
	if a.timed == maxTimes {
		return nil
	}
	t := &a.times[a.timed]
	*t = time.Time{}
	a.holders[a.timed] = holder
	a.timed++
	*holder = unsafe.Pointer(t)
	return unsafe.Pointer(t)
}

// settle moves everything to its final place and returns the memory allocated, in bytes.
func (a *arena) settle() (size int) {
	size = len(a.bytes) + a.timed*int(unsafe.Sizeof(time.Time{}))
	if len(a.pending) > 0 {
		block := make([]byte, len(a.bytes))
		copy(block, a.bytes)
		for _, p := range a.pending {
			part := block[p.from:p.to:p.to]
			if p.raw != nil {
				*p.raw = part
			} else {
				// Safe because the bytes of a string in the block are never written again: byte
				// slices of the same block cannot reach beyond their capacity.
				*p.text = unsafe.String(unsafe.SliceData(part), len(part))
			}
		}
	}
	if a.timed > 0 {
		times := make([]time.Time, a.timed)
		copy(times, a.times[:a.timed])
		for i := range times {
			*a.holders[i] = unsafe.Pointer(&times[i])
		}
	}
	return size
}

// keptBytes is the size above which buffers are not kept between objects.
const keptBytes = 1 << 20

// reset drops everything deferred.
func (a *arena) reset() {
	if cap(a.bytes) > keptBytes || cap(a.pending) > keptBytes/32 {
		a.bytes, a.pending = nil, nil
	}
	clear(a.pending)
	clear(a.holders[:a.timed])
	a.bytes, a.pending, a.timed = a.bytes[:0], a.pending[:0], 0
}
