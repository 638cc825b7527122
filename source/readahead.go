package source

import (
	"io"
	"sync"
)

// Sizes of read buffers of watches. A program has many watches, most of them idle. So an idle watch
// has only a tiny buffer, too small for any event. When data arrive, it borrows a buffer, and a
// larger one if that gets full, until it has caught up.
const (
	idleBufferSize    = 64
	defaultBufferSize = 32 << 10
	maxBufferSize     = 256 << 10
)

// Pools of the buffers that are not borrowed at the moment.
var (
	defaultBuffers = sync.Pool{New: func() any { return new([defaultBufferSize]byte) }}
	maxBuffers     = sync.Pool{New: func() any { return new([maxBufferSize]byte) }}
)

// readAhead is a buffered reader for watches. It must be used by one goroutine at a time.
type readAhead struct {
	src io.Reader
	// buf is quiet or a borrowed buffer. buf[from:to] has been read and not yet discarded.
	buf      []byte
	from, to int
	idle     [idleBufferSize]byte
	err      error // that ended src
}

func newReadAhead(src io.Reader) *readAhead {
	a := &readAhead{src: src}
	a.buf = a.idle[:]
	return a
}

// buffered returns all bytes that were read readAhead. They are valid until the next peek.
func (a *readAhead) buffered() []byte { return a.buf[a.from:a.to] }

// peek returns the next n bytes, reading as often as necessary; n is at most maxBufferSize. If it
// returns fewer, it also returns an error. The bytes are valid until the next peek.
func (a *readAhead) peek(n int) ([]byte, error) {
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
func (a *readAhead) discard(n int) { a.from += n }

// makeRoom makes room for more bytes after the buffered ones, of which there must be fewer than
// maxBufferSize. As long as a quarter of the buffer is free, it moves nothing: a large event may
// arrive in many small pieces.
func (a *readAhead) makeRoom() {
	old, rest := a.buf, a.buffered()
	switch {
	case len(rest) == 0:
		a.buf = a.idle[:]
	case a.to <= len(old)/4*3:
		return
	case a.to < len(old):
	case len(old) == idleBufferSize:
		a.buf = defaultBuffers.Get().(*[defaultBufferSize]byte)[:]
	case len(old) == defaultBufferSize:
		a.buf = maxBuffers.Get().(*[maxBufferSize]byte)[:]
	}
	a.from, a.to = 0, copy(a.buf, rest)
	if len(a.buf) != len(old) {
		putBuffer(old)
	}
}

func putBuffer(buf []byte) {
	switch len(buf) {
	case defaultBufferSize:
		defaultBuffers.Put((*[defaultBufferSize]byte)(buf))
	case maxBufferSize:
		maxBuffers.Put((*[maxBufferSize]byte)(buf))
	}
}
