package source

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/tidings/tidings/internal/wire/proto"
	"github.com/tidings/tidings/object"
	"google.golang.org/protobuf/encoding/protowire"
)

// How much of a protobuf body is read ahead, and so how many events can come as one batch. A watch that has once filled the
// smaller buffer gets the larger one: most are quiet, and those that are not gain from larger batches.
const (
	frameBuffer = 32 << 10
	busyBuffer  = 256 << 10
)

// frameReader reads the events of a watch in protobuf: frames of a length, four bytes in big-endian order, and a
// metav1.WatchEvent.
type frameReader struct {
	in    *bufio.Reader
	limit int
	used  int    // bytes at the front of in that the last frame still occupies
	large []byte // holds a frame that is larger than in's buffer
	busy  bool   // in's buffer has been full
}

func newFrameReader(body io.Reader, limit int) *frameReader {
	return &frameReader{in: bufio.NewReaderSize(body, frameBuffer), limit: limit}
}

// Buffered reports whether the next event has arrived in full, so that Next does not wait.
func (r *frameReader) Buffered() bool {
	ahead, _ := r.in.Peek(r.in.Buffered()) // cannot fail, the bytes are buffered
	ahead = ahead[r.used:]
	return len(ahead) >= 4 && uint64(len(ahead)-4) >= uint64(binary.BigEndian.Uint32(ahead))
}

// errEvent marks the error for one event that cannot be understood, while the stream around it goes on.
var errEvent = errors.New("malformed event")

// Next returns the type and the encoded object of the next event. The bytes are valid until the next call.
// io.EOF is the end between two events, io.ErrUnexpectedEOF the end within one.
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
	_, _ = r.in.Discard(r.used) // cannot fail, the bytes are buffered
	r.used = 0
	if r.busy && r.in.Size() < busyBuffer {
		r.in = bufio.NewReaderSize(r.in, busyBuffer) // what the smaller one holds comes first
	}
	head, err := r.in.Peek(4)
	if err != nil {
		if len(head) > 0 {
			err = unexpected(err)
		}
		return nil, err
	}
	size := binary.BigEndian.Uint32(head)
	if uint64(size) > uint64(r.limit) {
		return nil, &TooLargeError{Size: int64(size), Limit: r.limit, Key: r.keyAhead()}
	}
	if int(size)+4 > r.in.Size() {
		return r.largeFrame(int(size))
	}
	data, err := r.in.Peek(4 + int(size))
	if err != nil {
		return nil, unexpected(err)
	}
	r.used = len(data)
	r.busy = r.busy || r.in.Buffered() == r.in.Size()
	return data[4:], nil
}

// largeFrame copies a frame out of the buffer. Memory grows with the bytes that really come.
func (r *frameReader) largeFrame(size int) ([]byte, error) {
	_, _ = r.in.Discard(4) // cannot fail, the bytes are buffered
	if cap(r.large) > 8*size {
		r.large = nil // left over from a far larger frame
	}
	r.large = r.large[:0]
	for len(r.large) < size {
		part, err := r.in.Peek(min(size-len(r.large), r.in.Size()))
		r.large = append(r.large, part...)
		if err != nil {
			return nil, unexpected(err)
		}
		_, _ = r.in.Discard(len(part)) // cannot fail, the bytes are buffered
	}
	return r.large, nil
}

// unexpected makes the end of a body the error that it is in the middle of something.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// keyAhead finds the name of the object in a frame that is too large, in the part of it that has arrived.
func (r *frameReader) keyAhead() object.Key {
	const prefix = len("k8s\x00")
	ahead, _ := r.in.Peek(r.in.Buffered()) // cannot fail, the bytes are buffered
	o := startOf(ahead[4:], 2, 1)          // WatchEvent.object.raw
	if len(o) < prefix {
		return object.Key{}
	}
	metadata := startOf(o[prefix:], 2, 1) // Unknown.raw.metadata
	return object.Key{Namespace: string(startOf(metadata, 3)), Name: string(startOf(metadata, 1))}
}

// startOf descends into the fields with these numbers and returns as much of the last one as message holds. It is nil
// if message ends before it.
func startOf(message []byte, path ...protowire.Number) []byte {
	for _, number := range path {
		for {
			n, wireType, size := protowire.ConsumeTag(message)
			if size < 0 {
				return nil
			}
			message = message[size:]
			if n == number && wireType == protowire.BytesType {
				break
			}
			if size = protowire.ConsumeFieldValue(n, wireType, message); size < 0 {
				return nil
			}
			message = message[size:]
		}
		length, size := protowire.ConsumeVarint(message)
		if size < 0 {
			return nil
		}
		message = message[size:]
		message = message[:min(uint64(len(message)), length)]
	}
	return message
}

// typeName makes the type of an event a string; the usual ones need no memory.
func typeName(raw []byte) string {
	for _, name := range [...]string{"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"} {
		if string(raw) == name {
			return name
		}
	}
	return string(raw[:min(len(raw), 64)])
}
