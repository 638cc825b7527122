package source

import (
	"bufio"
	"io"

	"github.com/tidings/tidings/object"
)

// windowBytes is how much of a protobuf body is read ahead, and so how many events can come as one batch.
const windowBytes = 32 << 10

// window reads a body in pieces of known size, and hands out those that fit into its buffer without copying them.
type window struct {
	in    *bufio.Reader
	limit int
	used  int    // bytes at the front of in that the last piece still occupies
	read  uint64 // bytes of all pieces
	large []byte // holds a piece that is larger than in's buffer
}

func newWindow(body io.Reader, limit int) *window {
	return &window{in: bufio.NewReaderSize(body, windowBytes), limit: limit}
}

// release gives up the last piece.
func (w *window) release() {
	_, _ = w.in.Discard(w.used) // cannot fail, the bytes are buffered
	w.used = 0
}

// ahead returns what is buffered behind the last piece, which stays valid.
func (w *window) ahead() []byte {
	b, _ := w.in.Peek(w.in.Buffered()) // cannot fail, the bytes are buffered
	return b[w.used:]
}

// take returns the next n bytes, which are valid until the next call. io.EOF means that there are none,
// io.ErrUnexpectedEOF that there are fewer.
func (w *window) take(n int) ([]byte, error) {
	w.release()
	w.read += uint64(n)
	if n > w.in.Size() {
		return w.takeLarge(n)
	}
	b, err := w.in.Peek(n)
	if err != nil {
		if len(b) > 0 {
			err = unexpected(err)
		}
		return nil, err
	}
	w.used = n
	return b, nil
}

// takeLarge copies a piece out of the buffer. Memory grows with the bytes that really come.
func (w *window) takeLarge(n int) ([]byte, error) {
	if cap(w.large) > 8*n {
		w.large = nil // left over from a far larger piece
	}
	w.large = w.large[:0]
	for len(w.large) < n {
		part, err := w.in.Peek(min(n-len(w.large), w.in.Size()))
		w.large = append(w.large, part...)
		if err != nil {
			return nil, unexpected(err)
		}
		_, _ = w.in.Discard(len(part)) // cannot fail, the bytes are buffered
	}
	return w.large, nil
}

// object is take for the bytes of one object, whose size is limited. metadata finds the start of the object's
// metadata in the start of these bytes, to name an object that is too large.
func (w *window) object(size uint64, metadata func(start []byte) []byte) ([]byte, error) {
	if size <= uint64(w.limit) {
		return w.take(int(size))
	}
	start := metadata(w.ahead())
	key := object.Key{Namespace: string(startOf(start, 3)), Name: string(startOf(start, 1))}
	return nil, &TooLargeError{Size: int64(min(size, 1<<62)), Limit: w.limit, Key: key}
}

// skip passes over n bytes without holding them.
func (w *window) skip(n uint64) error {
	w.release()
	w.read += n
	for n > 0 {
		done, err := w.in.Discard(int(min(n, 1<<30)))
		if err != nil {
			return unexpected(err)
		}
		n -= uint64(done)
	}
	return nil
}

// unexpected makes the end of a body the error that it is in the middle of something.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
