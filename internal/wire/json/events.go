package json

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/tidings/tidings/internal/redact"
)

// EventReader reads the events of a watch in JSON: concatenated objects, each with a type and an object.
type EventReader struct {
	stream stream
	count  int
	err    error // the error that ended the stream
}

// NewEventReader returns a reader of the events in src. limit bounds the bytes of an event; 0 means DefaultLimit.
func NewEventReader(src io.Reader, limit int) *EventReader {
	r := &EventReader{stream: newStream(src, limit)}
	r.stream.what = "watch event"
	return r
}

// ErrEvent marks an error that concerns a single malformed event; the stream continues.
var ErrEvent = errors.New("malformed watch event")

// Next waits for the next event and returns its type and the text of its object. The text is valid until the next call
// of Next; it is complete, but not validated.
//
// The error is io.EOF if the stream ended between two events. An error that wraps ErrEvent concerns
// one event only, and the next call continues after it. Every other error ends the stream and is
// returned again by each call: a *LimitError, an error of the reader, one that wraps
// io.ErrUnexpectedEOF if the stream was cut off in the middle of an event, or an
// apierrors.APIStatus if the server sent a Status in place of an event.
func (r *EventReader) Next() (eventType string, object []byte, err error) {
	if r.err != nil {
		return "", nil, r.err
	}
	text, err := r.read()
	if err != nil {
		r.err = err
		return "", nil, err
	}
	r.count++
	eventType, object, err = splitEvent(text)
	if err != nil && !errors.Is(err, ErrEvent) {
		r.err = err
	}
	return eventType, object, err
}

// Buffered reports whether the next event has arrived in full, so that Next returns without waiting.
func (r *EventReader) Buffered() bool { return r.err == nil && r.stream.ready() }

func (r *EventReader) read() ([]byte, error) {
	c, err := r.stream.peek()
	if err != nil {
		if err == io.EOF {
			return nil, io.EOF
		}
		return nil, r.explain(err)
	}
	if c != '{' {
		return nil, r.explain(fmt.Errorf("got %q where an event belongs; is this a stream of JSON?", c))
	}
	text, err := r.stream.read()
	if err != nil {
		return nil, r.explain(err)
	}
	return text, nil
}

func (r *EventReader) explain(err error) error {
	return fmt.Errorf("read watch, after %d events: %w", r.count, err)
}

// splitEvent splits an event into type and object. As everywhere, the last of duplicate members wins.
func splitEvent(text []byte) (eventType string, object []byte, err error) {
	var kind, rawType []byte
	m := walk(text)
	for m.next() {
		switch name := m.name; {
		case string(name) == `"object"`:
			object = m.value
		case !isValid(name) || !isValid(m.value):
			return "", nil, fmt.Errorf("%w: %w", ErrEvent, errNotObject)
		case string(name) == `"type"`:
			rawType = m.value
		case string(name) == `"kind"`:
			kind = m.value
		}
	}
	switch {
	case m.err != nil:
		return "", nil, fmt.Errorf("%w: %w", ErrEvent, errNotObject)
	case object == nil && string(kind) == `"Status"`:
		return "", nil, statusError(text)
	case len(rawType) < len(`"x"`) || rawType[0] != '"':
		return "", nil, fmt.Errorf("%w: it has no type", ErrEvent)
	case len(object) == 0 || object[0] != '{':
		return "", nil, fmt.Errorf("%w: it has no object", ErrEvent)
	}
	return typeName(rawType), object, nil
}

// typeName decodes the type of an event; the usual ones take no allocation.
func typeName(raw []byte) string {
	switch string(raw) {
	case `"ADDED"`:
		return "ADDED"
	case `"MODIFIED"`:
		return "MODIFIED"
	case `"DELETED"`:
		return "DELETED"
	case `"BOOKMARK"`:
		return "BOOKMARK"
	case `"ERROR"`:
		return "ERROR"
	}
	return unquote(raw)
}

func isValid(text []byte) bool {
	return jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// statusError returns the error that a metav1.Status in JSON stands for.
func statusError(text []byte) error {
	var status metav1.Status
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &status); err != nil {
		return fmt.Errorf("read Status of the server: %w", redact.Decoding(err))
	}
	return &apierrors.StatusError{ErrStatus: status}
}
