package json

import (
	"errors"
	"fmt"
	"io"
)

// DefaultLimit is the largest value that a reader takes when it is given no limit: 16 MiB, several times the largest
// object that an API server stores.
const DefaultLimit = 16 << 20

// LimitError says that a value in a stream was larger than its reader takes.
type LimitError struct {
	What  string // such as "watch event"
	Limit int    // in bytes
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%s is larger than the limit of %d bytes; raise Scope.MaxObjectBytes if it really is that large", e.What, e.Limit)
}

// stream takes the values of a stream apart. It holds one value and what has arrived behind it.
type stream struct {
	src   io.Reader
	limit int
	what  string // what is read, for errors
	buf   []byte // buf[start:] is unread
	start int
	next  extent // of the value at start, as far as it has arrived
	err   error  // of src, for when buf is used up
}

const (
	firstBuffer = 32 << 10
	// keepBuffer is the largest buffer that is kept when little is in it.
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

// peek returns the next byte that is not space, without moving over it. At the end of the stream the error is io.EOF.
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

// take moves over c if it comes next. At the end of the stream the error is io.ErrUnexpectedEOF.
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

// expect moves over c, or says what is there instead.
func (s *stream) expect(c byte) error {
	ok, err := s.take(c)
	if err == nil && !ok {
		err = fmt.Errorf("malformed JSON: got %q where %q belongs", s.buf[s.start], c)
	}
	return err
}

// read returns the next value. It is not validated, and it is valid until the next call of any method.
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

// fill waits for more data and appends it to buf. Space that was read is reused.
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

// makeRoom moves what is unread to the front and sees that there is room behind it. The buffer doubles for a value that
// does not fit, and becomes small again once large values are gone.
func (s *stream) makeRoom() {
	unread := s.buf[s.start:]
	size := cap(s.buf)
	switch {
	case size == 0:
		size = firstBuffer
	case len(unread) > size/2:
		size *= 2
	case size > keepBuffer && len(unread) < size/8:
		size = max(keepBuffer, 2*len(unread))
	}
	if size != cap(s.buf) {
		s.buf = append(make([]byte, 0, size), unread...)
	} else if s.start > 0 {
		s.buf = s.buf[:copy(s.buf, unread)]
	}
	s.start = 0
}

// unexpected turns the clean end of a stream into the error that it is in the middle of a value.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
