package json

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// DefaultLimit is the largest value that a reader accepts if no limit is given: 16 MiB, several times the largest
// object that an API server stores.
const DefaultLimit = 16 << 20

// LimitError says that a value in a stream is larger than its reader accepts.
type LimitError struct {
	What  string // such as "watch event"
	Limit int    // in bytes
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%s is larger than the limit of %d bytes; raise Scope.MaxObjectBytes if it really is that large", e.What, e.Limit)
}

// stream splits a stream into values. It holds one value and what has arrived after it.
type stream struct {
	src   io.Reader
	limit int
	what  string // what is being read, for errors
	buf   []byte // buf[start:] is unread
	quiet []byte // the buffer used while nothing is unread
	start int
	next  extent // of the value at start, as far as it has arrived
	err   error  // of src, reported once buf is used up
}

const (
	// quietBuffer is the buffer size of an idle stream: most watches are, and a program has many.
	// It is too small for any event.
	quietBuffer = 64
	// busyBuffer is the size of the buffer that a stream borrows when data arrives, until it has caught up.
	busyBuffer = 64 << 10
	// keepBuffer is the largest buffer that is kept while it is nearly empty.
	keepBuffer = 256 << 10
	// maxEmptyReads is how often in a row a reader may return neither data nor an error.
	maxEmptyReads = 100
)

func newStream(src io.Reader, limit int) stream {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return stream{src: src, limit: limit}
}

// peek returns the next byte that is not white space, without consuming it. At the end of the
// stream the error is io.EOF.
func (s *stream) peek() (byte, error) {
	for {
		for s.start < len(s.buf) {
			if c := s.buf[s.start]; !isSpace(c) {
				return c, nil
			}
			s.start++
		}
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
}

// take consumes c if it comes next. At the end of the stream the error is io.ErrUnexpectedEOF.
func (s *stream) take(c byte) (bool, error) {
	got, err := s.peek()
	if err != nil {
		return false, unexpected(err)
	}
	if got == c {
		s.start++
	}
	return got == c, nil
}

// expect consumes c, or returns an error that says what is there instead.
func (s *stream) expect(c byte) error {
	ok, err := s.take(c)
	if err == nil && !ok {
		err = fmt.Errorf("malformed JSON: got %q where %q belongs", s.buf[s.start], c)
	}
	return err
}

// read returns the next value. It is not validated, and is valid until the next call of any method.
func (s *stream) read() ([]byte, error) {
	if _, err := s.peek(); err != nil {
		return nil, unexpected(err)
	}
	for {
		end, ok := s.next.find(s.buf[s.start:])
		if !ok && len(s.buf)-s.start > s.limit || end > s.limit {
			return nil, &LimitError{What: s.what, Limit: s.limit}
		}
		if ok {
			return s.pop(end)
		}
		if err := s.fill(); err != nil {
			return nil, unexpected(err)
		}
	}
}

func (s *stream) pop(size int) ([]byte, error) {
	if size == 0 {
		return nil, fmt.Errorf("malformed JSON: got %q where a value belongs", s.buf[s.start])
	}
	s.next = extent{}
	s.start += size
	return s.buf[s.start-size : s.start], nil
}

// ready reports whether the next value has arrived in full, so that read returns without waiting.
func (s *stream) ready() bool {
	for s.start < len(s.buf) && isSpace(s.buf[s.start]) {
		s.start++
	}
	_, ok := s.next.find(s.buf[s.start:])
	return ok
}

// fill waits for more data and appends it to buf, reusing the space of consumed data.
func (s *stream) fill() error {
	if s.err != nil {
		return s.err
	}
	s.makeRoom()
	for range maxEmptyReads {
		n, err := s.src.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+n]
		s.err = err
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	s.err = io.ErrNoProgress
	return s.err
}

// busyBuffers are the ones not in use.
var busyBuffers = sync.Pool{New: func() any { return new([busyBuffer]byte) }}

// makeRoom makes room after the unread data, moving it to the front if needed: a large value may arrive in many small
// pieces. The buffer doubles for a value that does not fit, and shrinks again once large values are gone.
func (s *stream) makeRoom() {
	old, unread := s.buf, s.buf[s.start:]
	switch size := cap(old); {
	case size == 0:
		s.quiet = make([]byte, 0, quietBuffer)
		s.buf = s.quiet
	case len(unread) == 0:
		s.buf = s.quiet
	case size == quietBuffer && len(old) == size || size > keepBuffer && len(unread) < size/8:
		s.buf = busyBuffers.Get().(*[busyBuffer]byte)[:0]
	case size > quietBuffer && len(unread) > size/2:
		s.buf = make([]byte, 0, 2*size)
	case len(old) <= size/4*3:
		return
	}
	s.buf = append(s.buf[:0], unread...)
	s.start = 0
	if cap(old) == busyBuffer && cap(s.buf) != busyBuffer {
		busyBuffers.Put((*[busyBuffer]byte)(old[:busyBuffer]))
	}
}

// unexpected turns the clean end of a stream into an error, for use in the middle of a value.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
