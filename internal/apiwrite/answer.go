package apiwrite

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Object is the metadata of an object in an answer: name, namespace, uid, version, labels, and what is known of its
// deletion.
type Object struct {
	metav1.ObjectMeta
	// SpecFinalizers is the number of finalizers in the spec, which namespaces have. MetadataOnly is set if the answer
	// is a form of the object that does not show its spec.
	SpecFinalizers int
	MetadataOnly   bool

	next      string // of a list's metadata: where the next page begins
	labels    []byte // as encoded, in the answer's buffer
	asMessage bool   // labels are fields of a protobuf message
}

// GetLabels decodes the labels. It must not be called for the first time after Finished has returned.
func (o *Object) GetLabels() map[string]string {
	if o.Labels == nil && o.labels != nil {
		if o.asMessage {
			o.Labels = messageLabels(o.labels)
		} else {
			_ = json.Unmarshal(o.labels, &o.Labels)
		}
	}
	return o.Labels
}

// Answer is what an answer says.
type Answer struct {
	// Object is the object, or the metadata of a Scale, which are its object's. Otherwise it has no uid.
	Object Object
	// IsStatus is set if the answer is a Status. UID and Reason are what it says.
	IsStatus bool
	UID      types.UID
	Reason   metav1.StatusReason
	// IsList is set if the answer is a complete list, or a page of one. Items are its objects, and Continue is where the
	// next page begins; it is empty if there is none.
	IsList   bool
	Items    []Object
	Continue string
}

// metadataKind is the kind of the metadata of an object of any kind.
const metadataKind = "PartialObjectMetadata"

// IsObject reports whether the answer was read and is an object.
func (a *Answer) IsObject() bool {
	return a.Object.UID != "" && a.Object.ResourceVersion != "" && !a.IsList
}

// Understood reports whether the answer could be read.
func (a *Answer) Understood() bool { return a.IsObject() || a.IsStatus || a.IsList }

const (
	// usualHeld is how much of an answer is held before it is looked at; it is larger than nearly all objects.
	// maxHeld is how much is held if that does not suffice.
	usualHeld = 64 << 10
	maxHeld   = 256 << 10
)

// buffers has buffers for the beginnings of answers.
var buffers = sync.Pool{New: func() any { return &buffer{data: make([]byte, 0, 8<<10)} }}

// buffer is what is held of an answer, and what it says.
type buffer struct {
	data   []byte
	answer Answer
}

// Body passes on the body of an answer, and reads it on the way.
type Body struct {
	body     io.ReadCloser
	receiver Receiver
	media    string

	mu     sync.Mutex // not held while the body is read
	buffer *buffer    // nil once the answer is known
	tried  bool
}

// Receiver gets what an answer says.
type Receiver interface {
	// Finished is called once: when the answer is known, and otherwise when the body has been read or closed, with
	// an answer that is not understood. The answer must not be kept.
	Finished(*Answer)
}

// Init makes the body read like the given one, which has this content type. As with any body of net/http, Close may be
// called while Read runs.
func (b *Body) Init(body io.ReadCloser, contentType string, r Receiver) {
	*b = Body{body: body, buffer: buffers.Get().(*buffer), receiver: r, media: contentType}
}

// Read reads from the body.
func (b *Body) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.buffer != nil {
		b.take(p[:n], err)
	}
	return n, err
}

// Close closes the body.
func (b *Body) Close() error {
	b.end()
	return b.body.Close()
}

// end passes on what was read, if the answer is not known yet.
func (b *Body) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.buffer != nil {
		b.finish(Parse(b.media, b.buffer.data))
	}
}

// take looks at what was read. The caller holds mu.
func (b *Body) take(data []byte, err error) {
	held := b.buffer
	held.data = append(held.data, data[:min(len(data), maxHeld-len(held.data))]...)
	switch {
	case err == nil && len(held.data) < usualHeld:
	case err != nil && !errors.Is(err, io.EOF):
		b.finish(Answer{})
	case err != nil || len(held.data) >= maxHeld:
		b.finish(Parse(b.media, held.data))
	case !b.tried:
		b.tried = true
		if a := Parse(b.media, held.data); a.Understood() {
			b.finish(a)
		}
	}
}

// finish passes on the answer. The caller holds mu.
func (b *Body) finish(a Answer) {
	held := b.buffer
	b.buffer = nil
	held.answer = a // which would be allocated, if the receiver got a pointer to the parameter
	b.receiver.Finished(&held.answer)
	if cap(held.data) <= usualHeld {
		held.data, held.answer = held.data[:0], Answer{}
		buffers.Put(held)
	}
}

// Parse reads an answer, of which data is at least the beginning.
func Parse(contentType string, data []byte) (a Answer) {
	switch mediaType(contentType) {
	case "application/json":
		parseJSON(data, &a)
	case "application/vnd.kubernetes.protobuf":
		parseProtobuf(data, &a)
	case "application/cbor":
		parseCBOR(data, &a)
	}
	return a
}

// mediaType returns the media type without its parameters.
func mediaType(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.TrimSpace(media)
}
