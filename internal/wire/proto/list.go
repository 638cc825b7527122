package proto

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultMaxItem is the default bound on the bytes of a list item; etcd accepts about a tenth of that.
const DefaultMaxItem = 16 << 20

// LimitError says that a list item is larger than its reader allows.
type LimitError struct {
	Size  uint64 // of the item, in bytes, according to the list
	Limit int    // in bytes
	Start []byte // the beginning of the item, as far as it has already arrived
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%d bytes are more than the %d allowed for one item", e.Size, e.Limit)
}

// The numbers of the fields of every list type.
const (
	listMeta  = 1
	listItems = 2
)

// ListReader reads a list, such as a PodList with its envelope, item by item as it arrives. It holds one item at a
// time. Only one goroutine may use it.
type ListReader struct {
	r        *bufio.Reader
	maxItem  int
	envelope Envelope
	meta     metav1.ListMeta
	buf      []byte
	peeked   int // bytes of r that the last item still occupies
	raw      uint64
	begun    bool // the list in the envelope has begun
	state    listState
	err      error
	items    int
}

// listState says what comes next in the list.
type listState uint8

const (
	atMagic    listState = iota
	inEnvelope           // among the fields of the envelope
	inRaw                // among the fields of the list; l.raw bytes of it are left
)

// NewListReader returns a reader for the list at the start of r. An item larger than maxItem bytes is a
// *LimitError; 0 means DefaultMaxItem.
func NewListReader(r *bufio.Reader, maxItem int) *ListReader {
	if maxItem <= 0 {
		maxItem = DefaultMaxItem
	}
	return &ListReader{r: r, maxItem: maxItem}
}

// Next returns the bytes of the next item, for Decoder.Decode. They are valid until the next call.
// After the last item the error is io.EOF; a list that ends too early gives io.ErrUnexpectedEOF,
// and a Status in place of a list an apierrors.APIStatus. Errors are returned again by each further
// call.
func (l *ListReader) Next() ([]byte, error) {
	if l.err != nil {
		return nil, l.err
	}
	item, err := l.next()
	if err != nil && err != io.EOF {
		err = fmt.Errorf("list: item %d: %w", l.items, err)
	}
	l.err = err
	if err != nil {
		return nil, err
	}
	l.items++
	return item, nil
}

// Meta returns the list's metadata read so far. It is complete when Next has returned io.EOF, but
// an API server sends it before the items.
func (l *ListReader) Meta() metav1.ListMeta { return l.meta }

// TypeMeta returns the kind and version of the list, complete when Meta is.
func (l *ListReader) TypeMeta() metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: string(l.envelope.APIVersion), Kind: string(l.envelope.Kind)}
}

func (l *ListReader) next() ([]byte, error) {
	if err := l.release(); err != nil {
		return nil, err
	}
	for {
		var item []byte
		var err error
		switch l.state {
		case atMagic:
			err = l.readMagic()
		case inEnvelope:
			err = l.envelopeField()
		case inRaw:
			item, err = l.listField()
		}
		if item != nil || err != nil {
			return item, err
		}
	}
}

func (l *ListReader) readMagic() error {
	var b [len(magic)]byte
	if _, err := io.ReadFull(l.r, b[:]); err != nil {
		return noEOF(err)
	}
	if string(b[:]) != magic {
		return ErrNoMagic
	}
	l.state = inEnvelope
	return nil
}

// envelopeField reads one field of the envelope, or just the header of the raw part. The stream may
// end between two fields, but not before the list: a truncated body would otherwise pass for an
// empty list.
func (l *ListReader) envelopeField() error {
	if _, err := l.r.Peek(1); err != nil {
		if l.begun {
			return err
		}
		return noEOF(err)
	}
	num, wire, err := l.tag(nil)
	if err != nil {
		return err
	}
	if num > unknownContentType {
		return l.skipField(wire, nil)
	}
	size, err := l.length(wire, nil)
	if err != nil {
		return err
	}
	switch {
	case num == unknownRaw && string(l.envelope.Kind) == "Status":
		return l.statusError(size)
	case num == unknownRaw:
		l.raw, l.state, l.begun = size, inRaw, true
		return nil
	}
	b, err := l.take(size)
	if err != nil {
		return err
	}
	if num == unknownTypeMeta {
		err = l.envelope.parseTypeMeta(bytes.Clone(b))
	}
	return errors.Join(err, l.release())
}

// statusError returns the error that a Status of this size, which was sent in place of a list, stands for.
func (l *ListReader) statusError(size uint64) error {
	b, err := l.take(size)
	if err != nil {
		return err
	}
	var status metav1.Status
	if err := status.Unmarshal(b); err != nil {
		return fmt.Errorf("read Status of the server: %w", err)
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// listField reads one field of the list. It returns it if it is an item, which is never nil.
func (l *ListReader) listField() ([]byte, error) {
	if l.raw == 0 {
		l.state = inEnvelope
		return nil, nil
	}
	num, wire, err := l.tag(&l.raw)
	if err != nil {
		return nil, err
	}
	if num > listItems {
		return nil, l.skipField(wire, &l.raw)
	}
	size, err := l.length(wire, &l.raw)
	if err != nil {
		return nil, err
	}
	if err := spend(&l.raw, size); err != nil {
		return nil, err
	}
	b, err := l.take(size)
	if err != nil || num == listItems {
		return b, err
	}
	return nil, errors.Join(l.meta.Unmarshal(b), l.release())
}

// take returns the next size bytes, valid until release. It grows its buffer only as bytes arrive.
func (l *ListReader) take(size uint64) ([]byte, error) {
	if size > uint64(l.maxItem) {
		start, _ := l.r.Peek(l.r.Buffered()) // cannot fail, the bytes are buffered
		return nil, &LimitError{Size: size, Limit: l.maxItem, Start: bytes.Clone(start)}
	}
	n := int(size)
	if n <= l.r.Size() {
		b, err := l.r.Peek(n)
		if err != nil {
			return nil, noEOF(err)
		}
		l.peeked = n
		return b[:n:n], nil
	}
	const step = 64 << 10
	l.buf = l.buf[:0]
	for len(l.buf) < n {
		from := len(l.buf)
		to := min(n, from+max(step, from))
		if to > cap(l.buf) {
			l.buf = append(make([]byte, 0, to), l.buf...)
		}
		l.buf = l.buf[:to]
		if _, err := io.ReadFull(l.r, l.buf[from:]); err != nil {
			return nil, noEOF(err)
		}
	}
	return l.buf, nil
}

// release discards the bytes of the last take.
func (l *ListReader) release() error {
	if cap(l.buf) > keptBytes {
		l.buf = nil
	}
	n := l.peeked
	l.peeked = 0
	_, err := l.r.Discard(n)
	return err
}

// tag reads a tag. Here and below, budget is what is left of the enclosing message, or nil for the envelope.
func (l *ListReader) tag(budget *uint64) (num int32, wire int, err error) {
	v, err := l.uvarint(budget)
	if err != nil {
		return 0, 0, err
	}
	num, wire = int32(v>>3), int(v&7)
	if wire == endGroupWire {
		return 0, 0, errEndGroup
	}
	if num <= 0 {
		return 0, 0, errFieldNumber
	}
	return num, wire, nil
}

func (l *ListReader) length(wire int, budget *uint64) (uint64, error) {
	if wire != bytesWire {
		return 0, fmt.Errorf("protobuf: wire type %d does not fit a list", wire)
	}
	return l.uvarint(budget)
}

func (l *ListReader) uvarint(budget *uint64) (uint64, error) {
	var v uint64
	for shift := uint(0); shift < 64; shift += 7 {
		if err := spend(budget, 1); err != nil {
			return 0, err
		}
		c, err := l.r.ReadByte()
		if err != nil {
			return 0, noEOF(err)
		}
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v, nil
		}
	}
	return 0, errOverflow
}

// skipField skips a field whose tag was read.
func (l *ListReader) skipField(wire int, budget *uint64) error {
	for depth := 0; ; {
		var size uint64
		var err error
		switch wire {
		case varintWire:
			_, err = l.uvarint(budget)
		case fixed64Wire:
			size = 8
		case bytesWire:
			size, err = l.uvarint(budget)
		case startGroupWire:
			depth++
		case endGroupWire:
			depth--
		case fixed32Wire:
			size = 4
		default:
			err = fmt.Errorf("protobuf: there is no wire type %d", wire)
		}
		if err == nil {
			err = l.discard(size, budget)
		}
		if err != nil || depth == 0 {
			return err
		}
		v, err := l.uvarint(budget)
		if err != nil {
			return err
		}
		wire = int(v & 7)
	}
}

func (l *ListReader) discard(size uint64, budget *uint64) error {
	if err := spend(budget, size); err != nil {
		return err
	}
	if size > 1<<62 {
		return errLength
	}
	_, err := io.CopyN(io.Discard, l.r, int64(size))
	return noEOF(err)
}

// spend takes n from the budget.
func spend(budget *uint64, n uint64) error {
	if budget == nil {
		return nil
	}
	if n > *budget {
		return io.ErrUnexpectedEOF
	}
	*budget -= n
	return nil
}

// noEOF turns an end of the stream into an error, for use in the middle of something.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
