package json

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/go-json-experiment/json/jsontext"
)

// node is one value of a document, or the name of an object's member. Nodes are in the order of the
// text: the node of an object is followed by name, value, name, value; that of an array by its
// elements.
type node struct {
	start, end int32 // its position in the text; strings include their quotes
	next       int32 // the node after it and everything in it
	size       int32 // members of an object, elements of an array
	kind       jsontext.Kind
}

// tape is a validated document, parsed in one pass. Since it has the extent of every value, later
// passes can skip or look up a whole subtree without reading it again.
type tape struct {
	dec   jsontext.Decoder
	buf   bytes.Buffer
	nodes []node
	open  []int32 // the objects and arrays around the current token
}

var errTrailing = errors.New("there is more data behind the value")

// parse validates data and fills the tape with its nodes. The tape keeps no reference to data.
func (t *tape) parse(data []byte) error {
	if len(data) > math.MaxInt32 {
		return fmt.Errorf("document of %d bytes is larger than 2 GiB", len(data))
	}
	t.nodes, t.open = t.nodes[:0], t.open[:0]
	t.reset(data)
	defer t.reset(nil)
	for {
		tok, err := t.dec.ReadToken()
		if err != nil {
			return t.finish(err)
		}
		if len(t.open) == 0 && len(t.nodes) > 0 {
			return errTrailing
		}
		t.add(data, tok.Kind(), int32(t.dec.InputOffset()))
	}
}

// reset points the tokenizer at data. Like Kubernetes, it accepts duplicate names and invalid UTF-8.
func (t *tape) reset(data []byte) {
	t.buf = *bytes.NewBuffer(data)
	t.dec.Reset(&t.buf, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// add appends the token that ends at end.
func (t *tape) add(data []byte, kind jsontext.Kind, end int32) {
	switch kind {
	case kindEndObject, kindEndArray:
		last := len(t.open) - 1
		n := &t.nodes[t.open[last]]
		n.end, n.next = end, int32(len(t.nodes))
		if kind == kindEndObject {
			n.size /= 2
		}
		t.open = t.open[:last]
		return
	}
	if len(t.open) > 0 {
		t.nodes[t.open[len(t.open)-1]].size++
	}
	self := int32(len(t.nodes))
	t.nodes = append(t.nodes, node{start: t.tokenStart(data, kind, end), end: end, next: self + 1, kind: kind})
	if kind == kindBeginObject || kind == kindBeginArray {
		t.open = append(t.open, self)
	}
}

// tokenStart returns the start of the token that ends at end.
func (t *tape) tokenStart(data []byte, kind jsontext.Kind, end int32) int32 {
	switch kind {
	case kindBeginObject, kindBeginArray:
		return end - 1
	case kindNull, kindTrue:
		return end - 4
	case kindFalse:
		return end - 5
	}
	// Only white space and separators lie between the last token and a string or number.
	at := int32(0)
	if len(t.nodes) > 0 {
		at = t.nodes[len(t.nodes)-1].end
	}
	if kind == kindString {
		for data[at] != '"' {
			at++
		}
		return at
	}
	for data[at] != '-' && (data[at] < '0' || data[at] > '9') {
		at++
	}
	return at
}

// maxKeptNodes bounds the nodes kept between documents, to about a megabyte.
const maxKeptNodes = 50_000

// release frees the memory of an unusually large document.
func (t *tape) release() {
	if cap(t.nodes) > maxKeptNodes {
		t.nodes = nil
	}
}

// finish returns nil if a tape that ended with err holds one complete value.
func (t *tape) finish(err error) error {
	switch {
	case err != io.EOF:
		return err
	case len(t.nodes) == 0:
		return io.ErrUnexpectedEOF
	}
	return nil
}
