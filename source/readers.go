package source

import (
	"bufio"
	"io"

	"github.com/tidings/tidings/internal/wire/json"
	"github.com/tidings/tidings/internal/wire/proto"
)

// eventReader splits the body of a watch into events.
type eventReader interface {
	// Next returns the type of the next event and its encoded object; the bytes are valid until the next call.
	// io.EOF is a clean end. An error that wraps errEvent or json.ErrEvent concerns this event only.
	Next() (eventType string, object []byte, err error)
	// Buffered reports whether the next event has arrived in full, so that Next does not wait.
	Buffered() bool
}

// listBuffer is the size of the read buffer for a list in protobuf.
const listBuffer = 32 << 10

// listReader splits the body of a list into items.
type listReader interface {
	// Next returns the next encoded item; the bytes are valid until the next call. After the last
	// one it returns io.EOF.
	Next() ([]byte, error)
	// head returns what is known so far of the list's own fields; it is complete after io.EOF.
	head() listHead
}

// listHead holds a list's own fields.
type listHead struct {
	apiVersion, kind          string
	resourceVersion, nextPage string
}

func (c *format[T]) list(body io.Reader) listReader {
	if c.protobuf {
		return protobufList{proto.NewListReader(bufio.NewReaderSize(body, listBuffer), c.scope.MaxObjectBytes)}
	}
	return jsonList{json.NewListReader(body, c.scope.MaxObjectBytes)}
}

func (c *format[T]) events(body io.Reader) eventReader {
	if c.protobuf {
		return newFrameReader(body, c.scope.MaxObjectBytes)
	}
	return json.NewEventReader(body, c.scope.MaxObjectBytes)
}

// jsonList reads a list in JSON.
type jsonList struct{ *json.ListReader }

func (l jsonList) head() listHead {
	h := l.Head()
	return listHead{apiVersion: h.APIVersion, kind: h.Kind, resourceVersion: h.ResourceVersion, nextPage: h.Continue}
}

// protobufList reads a list in protobuf.
type protobufList struct{ *proto.ListReader }

func (l protobufList) head() listHead {
	t, m := l.TypeMeta(), l.Meta()
	return listHead{apiVersion: t.APIVersion, kind: t.Kind, resourceVersion: m.ResourceVersion, nextPage: m.Continue}
}
