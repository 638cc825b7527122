package source

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/tidings/tidings/internal/wire/proto"
	"github.com/tidings/tidings/object"
)

// frameReader reads the events of a watch in protobuf. Each is framed as a four-byte big-endian length and a
// metav1.WatchEvent.
type frameReader struct {
	in    *readAhead
	limit int
	used  int    // bytes at the front of in that the last frame still occupies
	large []byte // a frame that does not fit into in's buffer
}

func newFrameReader(body io.Reader, limit int) *frameReader {
	return &frameReader{in: newReadAhead(body), limit: limit}
}

// Buffered reports whether the next event has arrived in full, so that Next does not wait.
func (r *frameReader) Buffered() bool {
	next := r.in.buffered()[r.used:]
	return len(next) >= 4 && uint64(len(next)-4) >= uint64(binary.BigEndian.Uint32(next))
}

// errEvent marks an error that concerns a single event and does not end the stream.
var errEvent = errors.New("malformed event")

// Next returns the type and the encoded object of the next event. The bytes are valid until the next call.
// The error is io.EOF if the stream ends between two events, and io.ErrUnexpectedEOF if it ends within one.
func (r *frameReader) Next() (string, []byte, error) {
	frame, err := r.frame()
	if err != nil {
		return "", nil, err
	}
	event, err := proto.ParseWatchEvent(frame)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", errEvent, err)
	}
	return typeName(event.Type), event.Object, nil
}

func (r *frameReader) frame() ([]byte, error) {
	r.in.discard(r.used)
	r.used, r.large = 0, nil
	head, err := r.in.peek(4)
	if err != nil {
		if len(head) > 0 {
			err = unexpected(err)
		}
		return nil, err
	}
	size := binary.BigEndian.Uint32(head)
	if uint64(size) > uint64(r.limit) {
		if err := r.objectInstead(); err != nil {
			return nil, err
		}
		return nil, &TooLargeError{Size: int64(size), Limit: r.limit, Key: r.keyAhead()}
	}
	if int(size)+4 > maxBufferSize {
		return r.largeFrame(int(size))
	}
	data, err := r.in.peek(4 + int(size))
	if err != nil {
		return nil, unexpected(err)
	}
	r.used = len(data)
	return data[4:], nil
}

// largeFrame assembles a frame that is larger than the buffer. Memory grows only with the bytes that actually arrive.
func (r *frameReader) largeFrame(size int) ([]byte, error) {
	r.in.discard(4)
	for len(r.large) < size {
		part, err := r.in.peek(min(size-len(r.large), maxBufferSize))
		r.large = append(r.large, part...)
		if err != nil {
			return nil, unexpected(err)
		}
		r.in.discard(len(part))
	}
	return r.large, nil
}

// unexpected turns io.EOF in the middle of something into io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

var errNoEvents = errors.New("the response is one object, and no stream of events; does a proxy drop the query of the request?")

// objectInstead returns the error for a body that is one object in place of events: a Status, or
// what a server sends if the query does not reach it. It returns nil for other bodies.
func (r *frameReader) objectInstead() error {
	if !bytes.HasPrefix(r.in.buffered(), []byte("k8s\x00")) {
		return nil
	}
	body, _ := r.in.peek(maxBufferSize) // a Status ends before that
	if status, err := protobufStatus(body); err == nil {
		return statusError(status, 0)
	}
	return errNoEvents
}

// keyAhead returns the key of the object in a frame that is too large, from the part that has arrived.
func (r *frameReader) keyAhead() object.Key {
	const prefix = len("k8s\x00")
	o := proto.StartOf(r.in.buffered()[4:], 2, 1) // WatchEvent.object.raw
	if len(o) < prefix {
		return object.Key{}
	}
	metadata := proto.StartOf(o[prefix:], 2, 1) // Unknown.raw.metadata
	return object.Key{Namespace: string(proto.StartOf(metadata, 3)), Name: string(proto.StartOf(metadata, 1))}
}

// typeName returns the type of an event as a string, without allocating for the known ones.
func typeName(raw []byte) string {
	for _, name := range [...]string{"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"} {
		if string(raw) == name {
			return name
		}
	}
	return string(raw[:min(len(raw), 64)])
}
