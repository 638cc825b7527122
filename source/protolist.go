package source

import (
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// protobufList reads a list in protobuf item by item, so that the list is never held as a whole. The body is the
// prefix, then the fields of a runtime.Unknown; its field raw, which is nearly all of it, is the list: metadata in
// field 1, one item in every field 2.
type protobufList struct {
	in   *window
	what listHead
	// started is set behind the prefix, inList between the start of raw and its end at rawEnd.
	started, inList, hadList bool
	rawEnd                   uint64
	err                      error // what ended the list
}

func newProtobufList(body io.Reader, limit int) *protobufList {
	return &protobufList{in: newWindow(body, limit)}
}

func (l *protobufList) head() listHead { return l.what }

// Next returns the next item.
func (l *protobufList) Next() ([]byte, error) {
	for l.err == nil {
		var item []byte
		if item, l.err = l.step(); item != nil {
			return item, nil
		}
	}
	return nil, l.err
}

var (
	errListBounds = errors.New("malformed list: a field reaches beyond the end of the list")
	errTwoLists   = errors.New("malformed list: it comes twice")
)

// step reads one field. The result is nil unless it is an item.
func (l *protobufList) step() ([]byte, error) {
	if !l.started {
		l.started = true
		prefix, err := l.in.take(len(protobufPrefix))
		if err != nil {
			return nil, unexpected(err)
		}
		if string(prefix) != protobufPrefix {
			return nil, fmt.Errorf("malformed list: it starts with %q and not in the Kubernetes protobuf encoding", prefix)
		}
	}
	if l.inList && l.in.read >= l.rawEnd {
		l.inList = false
		if l.in.read > l.rawEnd {
			return nil, errListBounds
		}
	}
	tag, err := l.varint()
	if err != nil {
		if err == io.EOF && !l.hadList || l.inList {
			err = unexpected(err)
		}
		return nil, err
	}
	number, wireType := protowire.DecodeTag(tag)
	if wireType != protowire.BytesType {
		return nil, l.skip(wireType)
	}
	size, err := l.varint()
	if err != nil {
		return nil, unexpected(err)
	}
	if l.inList {
		if size > l.rawEnd-min(l.in.read, l.rawEnd) {
			return nil, errListBounds
		}
		return l.listField(number, size)
	}
	return nil, l.envelopeField(number, size)
}

// listField reads a field of the list.
func (l *protobufList) listField(number protowire.Number, size uint64) ([]byte, error) {
	switch number {
	case 1:
		data, err := l.in.object(size, noMetadata)
		if err != nil {
			return nil, unexpected(err)
		}
		var m metav1.ListMeta
		err = m.Unmarshal(data)
		l.what.resourceVersion, l.what.nextPage = m.ResourceVersion, m.Continue
		return nil, err
	case 2:
		item, err := l.in.object(size, func(start []byte) []byte { return startOf(start, 1) })
		if err != nil {
			return nil, unexpected(err)
		}
		return item[:size:size], nil
	default:
		return nil, l.in.skip(size)
	}
}

// envelopeField reads a field of the runtime.Unknown around the list.
func (l *protobufList) envelopeField(number protowire.Number, size uint64) error {
	switch number {
	case 1:
		data, err := l.in.object(size, noMetadata)
		if err != nil {
			return unexpected(err)
		}
		var e envelope
		err = e.readTypeMeta(data)
		l.what.apiVersion, l.what.kind = string(e.apiVersion), string(e.kind)
		return err
	case 2:
		if l.hadList {
			return errTwoLists
		}
		l.inList, l.hadList, l.rawEnd = true, true, l.in.read+size
		return nil
	case 3:
		if size > 0 {
			return errors.New("malformed list: it has a content encoding")
		}
		return nil
	default:
		return l.in.skip(size)
	}
}

func noMetadata([]byte) []byte { return nil }

// skip passes over the value of a field that is not length-delimited.
func (l *protobufList) skip(wireType protowire.Type) error {
	switch wireType {
	case protowire.VarintType:
		_, err := l.varint()
		return unexpected(err)
	case protowire.Fixed32Type:
		return l.in.skip(4)
	case protowire.Fixed64Type:
		return l.in.skip(8)
	default:
		return fmt.Errorf("malformed list: a field has wire type %d", wireType)
	}
}

// varint reads a number. io.EOF means that the body ended before it.
func (l *protobufList) varint() (uint64, error) {
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		b, err := l.in.take(1)
		if err != nil {
			if shift > 0 {
				err = unexpected(err)
			}
			return 0, err
		}
		v |= uint64(b[0]&0x7f) << shift
		if b[0] < 0x80 {
			return v, nil
		}
	}
	return 0, errors.New("malformed list: a number is longer than 64 bits")
}
