package source

import (
	"io"
	"sync"
)

// Sizes of read buffers of watches. A program has many watches, most of them idle. So an idle watch has only a tiny buffer, too small
// for any event. When data arrive, it borrows a buffer, and a larger one if that gets full, until it has caught up.
const (
	quietBuffer  = 64
	usualBuffer  = 32 << 10
	largestAhead = 256 << 10
)

// Pools of the buffers that are not borrowed at the moment.
var (
	usualBuffers   = sync.Pool{New: func() any { return new([usualBuffer]byte) }}
	largestBuffers = sync.Pool{New: func() any { return new([largestAhead]byte) }}
)

// ahead is a buffered reader for watches. It must be used by one goroutine at a time.
type ahead struct {
	src io.Reader
	// buf is quiet or a borrowed buffer. buf[from:to] has been read and not yet discarded.
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

// buffered returns all bytes that were read ahead. They are valid until the next peek.
func (a *ahead) buffered() []byte { return a.buf[a.from:a.to] }

// peek returns the next n bytes, reading as often as necessary; n is at most largestAhead. If it returns fewer, it also returns an error.
// The bytes are valid until the next peek.
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

// discard drops n buffered bytes.
func (a *ahead) discard(n int) { a.from += n }

// makeRoom makes room for more bytes after the buffered ones, of which there must be fewer than largestAhead. As long as a quarter of the
// buffer is free, it moves nothing: a large event may arrive in many small pieces.
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
