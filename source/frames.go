package source

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// frameReader reads the events of a watch in protobuf: frames of a length, four bytes in big-endian order, and a
// metav1.WatchEvent.
type frameReader struct{ in *window }

func newFrameReader(body io.Reader, limit int) frameReader {
	return frameReader{newWindow(body, limit)}
}

// Buffered reports whether the next event has arrived in full, so that Next does not wait.
func (r frameReader) Buffered() bool {
	ahead := r.in.ahead()
	return len(ahead) >= 4 && uint64(len(ahead)-4) >= uint64(binary.BigEndian.Uint32(ahead))
}

// Next returns the type and the encoded object of the next event. The bytes are valid until the next call.
// io.EOF is the end between two events, io.ErrUnexpectedEOF the end within one.
func (r frameReader) Next() (string, []byte, error) {
	head, err := r.in.take(4)
	if err != nil {
		return "", nil, err
	}
	frame, err := r.in.object(uint64(binary.BigEndian.Uint32(head)), eventMetadata)
	if err != nil {
		return "", nil, unexpected(err)
	}
	return splitEvent(frame)
}

// eventMetadata finds the start of an object's metadata in the start of a frame.
func eventMetadata(frame []byte) []byte {
	object := startOf(frame, 2, 1)                                       // WatchEvent.object.raw
	return startOf(object[min(len(object), len(protobufPrefix)):], 2, 1) // Unknown.raw.metadata
}

// startOf descends into the fields with these numbers and returns as much of the last one as data holds.
func startOf(data []byte, path ...protowire.Number) []byte {
	for _, number := range path {
		found := false
		for !found && len(data) > 0 {
			n, wireType, size := protowire.ConsumeTag(data)
			if size < 0 {
				return nil
			}
			data = data[size:]
			if n == number && wireType == protowire.BytesType {
				length, size := protowire.ConsumeVarint(data)
				if size < 0 {
					return nil
				}
				data, found = data[size:], true
				data = data[:min(uint64(len(data)), length)]
				continue
			}
			size = protowire.ConsumeFieldValue(n, wireType, data)
			if size < 0 {
				return nil
			}
			data = data[size:]
		}
		if !found {
			return nil
		}
	}
	return data
}

// errEvent marks the error for one event that cannot be understood, while the stream around it goes on.
var errEvent = errors.New("malformed watch event")

// splitEvent takes a metav1.WatchEvent apart.
func splitEvent(frame []byte) (eventType string, object []byte, err error) {
	err = eachBytesField(frame, func(n protowire.Number, value []byte) error {
		switch n {
		case 1:
			eventType = typeName(value)
		case 2:
			return eachBytesField(value, func(n protowire.Number, value []byte) error {
				if n == 1 {
					object = value
				}
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", errEvent, err)
	}
	return eventType, object, nil
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

// protobufPrefix starts every object in the Kubernetes protobuf encoding.
const protobufPrefix = "k8s\x00"

// envelope is what surrounds an object in the Kubernetes protobuf encoding: a runtime.Unknown.
type envelope struct {
	apiVersion, kind, raw []byte
}

// openEnvelope takes the envelope off. The result points into data.
func openEnvelope(data []byte) (e envelope, err error) {
	if len(data) < len(protobufPrefix) || string(data[:len(protobufPrefix)]) != protobufPrefix {
		return e, fmt.Errorf("not in the Kubernetes protobuf encoding: it starts with %.8q", data)
	}
	err = eachBytesField(data[len(protobufPrefix):], func(n protowire.Number, value []byte) error {
		switch n {
		case 1:
			return e.readTypeMeta(value)
		case 2:
			e.raw = value
		case 3:
			if len(value) > 0 {
				return fmt.Errorf("unknown content encoding %.32q", value)
			}
		}
		return nil
	})
	return e, err
}

func (e *envelope) readTypeMeta(data []byte) error {
	return eachBytesField(data, func(n protowire.Number, value []byte) error {
		switch n {
		case 1:
			e.apiVersion = value
		case 2:
			e.kind = value
		}
		return nil
	})
}

// eachBytesField calls f for every length-delimited field of a message and skips the others.
func eachBytesField(message []byte, f func(protowire.Number, []byte) error) error {
	for len(message) > 0 {
		n, wireType, size := protowire.ConsumeTag(message)
		if size < 0 {
			return protowire.ParseError(size)
		}
		message = message[size:]
		if wireType != protowire.BytesType {
			size = protowire.ConsumeFieldValue(n, wireType, message)
			if size < 0 {
				return protowire.ParseError(size)
			}
			message = message[size:]
			continue
		}
		value, size := protowire.ConsumeBytes(message)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if err := f(n, value); err != nil {
			return err
		}
		message = message[size:]
	}
	return nil
}
