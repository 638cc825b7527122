package json

import (
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/tidings/tidings/internal/redact"
)

// ListReader reads a list in JSON item by item, so that the whole list is never in memory.
type ListReader struct {
	stream stream
	head   ListHead
	rest   []byte // the members other than items, as the start of a JSON object
	state  listState
	// hasItems is set once the member items was seen; a second one is an error.
	hasItems bool
	count    int
	err      error // the error that ended the list
}

// listState says what comes next in the text of the list.
type listState uint8

const (
	listStart  listState = iota // the opening brace
	listFirst                   // the first member, or the end
	listMember                  // a comma and a member, or the end
	listItem0                   // the first item, or the end of items
	listItem                    // a comma and an item, or the end of items
)

// ListHead is the metadata of a list.
type ListHead struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
}

// ItemKind returns the apiVersion and kind of the list's items; items of built-in types omit them.
// It returns two empty strings if the kind of the list does not end in List, or is just "List",
// which may hold anything.
func (h *ListHead) ItemKind() (apiVersion, kind string) {
	kind, ok := strings.CutSuffix(h.Kind, "List")
	if !ok || kind == "" {
		return "", ""
	}
	return h.APIVersion, kind
}

// NewListReader returns a reader of the list in src. limit bounds the bytes of each item, and of
// everything else in the list together; 0 means DefaultLimit.
func NewListReader(src io.Reader, limit int) *ListReader {
	return &ListReader{stream: newStream(src, limit)}
}

// Next returns the text of the next item, which is valid until the next call. The text is complete
// and starts with a brace, but it is not validated.
//
// The error is io.EOF after the last item, once the rest of the list was read and is valid. Every
// other error ends the list and is returned again by each call: a *LimitError, an error of the
// reader, one that wraps io.ErrUnexpectedEOF if the list was cut off, or an apierrors.APIStatus if
// the server sent a Status instead.
func (r *ListReader) Next() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	item, err := r.step()
	if err != nil {
		if r.err = err; err != io.EOF && !isStatus(err) {
			r.err = fmt.Errorf("read list, after %d items: %w", r.count, err)
		}
		return nil, r.err
	}
	r.count++
	return item, nil
}

// Head returns the metadata read so far: before the first item, what the server wrote in front of
// the items, which is usually everything; complete once Next has returned io.EOF.
func (r *ListReader) Head() ListHead { return r.head }

func isStatus(err error) bool {
	_, ok := errors.AsType[interface {
		error
		Status() metav1.Status
	}](err)
	return ok
}

// step reads up to the next item.
func (r *ListReader) step() ([]byte, error) {
	for {
		switch r.state {
		case listStart:
			if err := r.stream.expect('{'); err != nil {
				return nil, err
			}
			r.stream.what, r.rest, r.state = "list", append(r.rest, '{'), listFirst
		case listFirst, listMember:
			if end, err := r.stream.take('}'); err != nil {
				return nil, err
			} else if end {
				return nil, r.finish()
			}
			if err := r.member(); err != nil {
				return nil, err
			}
		case listItem0, listItem:
			if end, err := r.stream.take(']'); err != nil {
				return nil, err
			} else if !end {
				return r.item()
			}
			r.stream.what, r.state = "list", listMember
		}
	}
}

// member reads a member of the list to its end, or up to the first item.
func (r *ListReader) member() error {
	if r.state == listMember {
		if err := r.stream.expect(','); err != nil {
			return err
		}
	}
	name, err := r.stream.read()
	if err != nil {
		return err
	}
	if name[0] != '"' || !isValid(name) {
		return fmt.Errorf("malformed JSON: got a value of %d bytes where a name belongs", len(name))
	}
	if unquote(name) == "items" {
		return r.items()
	}
	r.keep(name, ':')
	if err := r.stream.expect(':'); err != nil {
		return err
	}
	value, err := r.stream.read()
	if err != nil {
		return err
	}
	r.keep(value, ',')
	r.state = listMember
	if len(r.rest) > r.stream.limit {
		return &LimitError{What: "list without its items", Limit: r.stream.limit}
	}
	return nil
}

func (r *ListReader) keep(text []byte, behind byte) {
	r.rest = append(append(r.rest, text...), behind)
}

var errTwoItems = errors.New("the list has items twice")

// items reads up to the first item, or skips a null in place of items.
func (r *ListReader) items() error {
	if r.hasItems {
		return errTwoItems
	}
	r.hasItems = true
	r.stream.what = "list item"
	if err := r.decodeHead(); err != nil {
		return err
	}
	if err := r.stream.expect(':'); err != nil {
		return err
	}
	open, err := r.stream.take('[')
	if err != nil || open {
		r.state = listItem0
		return err
	}
	value, err := r.stream.read()
	if err != nil {
		return err
	}
	if string(value) != "null" {
		return fmt.Errorf("items is a value of %d bytes instead of an array", len(value))
	}
	r.state = listMember
	return nil
}

// item reads the next item.
func (r *ListReader) item() ([]byte, error) {
	if r.state == listItem {
		if err := r.stream.expect(','); err != nil {
			return nil, err
		}
	}
	r.state = listItem
	item, err := r.stream.read()
	if err != nil {
		return nil, err
	}
	if item[0] != '{' {
		return nil, fmt.Errorf("item %d is a value of %d bytes instead of an object", r.count, len(item))
	}
	return item, nil
}

var errNoItems = errors.New("it has no items, so it is not a list")

// finish decodes the rest of the list after its closing brace. It returns io.EOF if the list is valid.
func (r *ListReader) finish() error {
	if c, err := r.stream.peek(); err == nil {
		return fmt.Errorf("got %q behind the list", c)
	} else if err != io.EOF {
		return err
	}
	if err := r.decodeHead(); err != nil {
		return err
	}
	if !r.hasItems && r.head.Kind == "Status" {
		return statusError(r.object())
	}
	if !r.hasItems {
		return errNoItems
	}
	return io.EOF
}

func (r *ListReader) decodeHead() error {
	var head ListHead
	if err := kjson.UnmarshalCaseSensitivePreserveInts(r.object(), &head); err != nil {
		return redact.Decoding(err)
	}
	r.head = head
	return nil
}

// object returns the members besides items as a JSON object.
func (r *ListReader) object() []byte {
	text := append([]byte(nil), r.rest...)
	if last := len(text) - 1; text[last] == ',' {
		text = text[:last]
	}
	return append(text, '}')
}
