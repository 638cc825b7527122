package source

import (
	"io"
	"sync"
)

// How much of a watch is read ahead. A program has many watches, and most of them wait. So one that waits has next to no
// buffer, too small for any event. When something has come it borrows one, and a larger one if that gets full, until it has caught up.
const (
	quietBuffer  = 64
	usualBuffer  = 32 << 10
	largestAhead = 256 << 10
)

// The buffers that are not borrowed.
var (
	usualBuffers   = sync.Pool{New: func() any { return new([usualBuffer]byte) }}
	largestBuffers = sync.Pool{New: func() any { return new([largestAhead]byte) }}
)

// ahead reads ahead. It is for one goroutine.
type ahead struct {
	src io.Reader
	// In buf, what was read and not yet discarded is between from and to. It is quiet or borrowed.
	buf      []byte
	from, to int
	quiet    [quietBuffer]byte
	err      error // that ended src
}

func newAhead(src io.Reader) *ahead {
	a := &ahead{src: src}
	a.buf = a.quiet[:]
	return a
}

// buffered returns all that was read ahead. Like the bytes of peek it is valid until the next peek.
func (a *ahead) buffered() []byte { return a.buf[a.from:a.to] }

// peek returns the next n bytes, at most largestAhead, and reads as often as it has to. With fewer there is an error.
func (a *ahead) peek(n int) ([]byte, error) {
	for empty := 0; a.to-a.from < n && a.err == nil; {
		a.makeRoom()
		read, err := a.src.Read(a.buf[a.to:])
		a.to, a.err = a.to+read, err
		if empty++; read > 0 {
			empty = 0
		}
		if empty > maxEmptyReads && err == nil {
			a.err = io.ErrNoProgress
		}
	}
	if a.to-a.from < n {
		return a.buffered(), a.err
	}
	return a.buf[a.from : a.from+n], nil
}

// maxEmptyReads is how often in a row a reader may return neither data nor an error.
const maxEmptyReads = 100

// discard drops n bytes that are buffered.
func (a *ahead) discard(n int) { a.from += n }

// makeRoom makes room for more bytes behind those that are buffered, which must be fewer than largestAhead. They stay where they are while
// there is some: a large event may come in many small pieces.
func (a *ahead) makeRoom() {
	old, rest := a.buf, a.buffered()
	switch {
	case len(rest) == 0:
		a.buf = a.quiet[:]
	case a.to <= len(old)/4*3:
		return
	case a.to < len(old):
	case len(old) == quietBuffer:
		a.buf = usualBuffers.Get().(*[usualBuffer]byte)[:]
	case len(old) == usualBuffer:
		a.buf = largestBuffers.Get().(*[largestAhead]byte)[:]
	}
	a.from, a.to = 0, copy(a.buf, rest)
	if len(a.buf) != len(old) {
		giveBack(old)
	}
}

func giveBack(buf []byte) {
	switch len(buf) {
	case usualBuffer:
		usualBuffers.Put((*[usualBuffer]byte)(buf))
	case largestAhead:
		largestBuffers.Put((*[largestAhead]byte)(buf))
	}
}
