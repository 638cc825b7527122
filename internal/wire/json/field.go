package json

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/share"
)

// field is one path in the documents: all values with the same names around them, whatever list
// they are in. A field knows the fields below it, so that their names are decoded only once, and
// tracks whether looking its values up pays off.
type field struct {
	name     string // decoded
	raw      string // as in the text, including quotes
	path     int    // total length of the names from the top
	trim     *trimNode
	children map[string]*field // by raw name
	first    *field            // the first member of the last object
	after    *field            // the member that followed this one in the last object
	overflow *field            // stands for the members beyond the bounds; it has neither name nor raw, and is its own overflow
	stats    wire.FieldStats
	rate     share.Rate // of its values other than maps
	maps     share.Rate // of the maps whose second, or only, member it is: a list may hold several kinds of maps, only some of which repeat
	names    share.Rate // of the names it stands for
}

const (
	// Documents may use data as names. Members beyond these bounds share one field.
	maxChildren = 128
	maxFields   = 8192
	maxPath     = 512
	// fieldBytes is roughly the memory of a field without its names.
	fieldBytes = 256
)

// fields is the tree of all fields of a decoder.
type fields struct {
	root  *field
	count int
	bytes int
}

func newFields(trim *trimNode) *fields {
	return &fields{root: &field{trim: trim}}
}

// member returns the field of the member called raw in objects at f. before is the field of the
// preceding member, or nil. Members mostly come in the same order as last time, which saves the
// search.
func (fs *fields) member(f, before *field, raw []byte) *field {
	guess := &f.first
	if before != nil {
		guess = &before.after
	}
	if g := *guess; g != nil && g.raw == string(raw) {
		return g
	}
	m, ok := f.children[string(raw)]
	if !ok {
		return fs.add(f, raw)
	}
	*guess = m
	return m
}

// add creates the field of a new member. Beyond the bounds it returns the field that stands for all
// such members, or, if there is something to trim, one that is used only this time.
func (fs *fields) add(f *field, raw []byte) *field {
	full := f.overflow == f || len(f.children) >= maxChildren || fs.count >= maxFields || f.path+len(raw) > maxPath
	if full && f.trim == nil {
		return f.overflowField()
	}
	m := &field{raw: string(raw), path: f.path + len(raw)}
	m.name = m.raw[1 : len(raw)-1]
	if !isPlain(raw) {
		m.name = unquote(raw)
	}
	m.trim = f.trim.member(m.name)
	if full && m.trim == nil {
		return f.overflowField()
	}
	if full {
		m.name, m.raw, m.overflow = "", "", m
		return m
	}
	if f.children == nil {
		f.children = map[string]*field{}
	}
	f.children[m.raw] = m
	fs.count++
	fs.bytes += fieldBytes + len(m.raw)
	return m
}

// nameOf returns the dotted name of f.
func (fs *fields) nameOf(f *field) string {
	if name, ok := fs.root.find(f); ok {
		return name
	}
	return "*"
}

// find returns the name of to relative to f.
func (f *field) find(to *field) (name string, ok bool) {
	for _, m := range f.children {
		if m == to {
			return m.name, true
		}
		if below, ok := m.find(to); ok {
			return m.name + "." + below, true
		}
	}
	return "", false
}

// overflowField returns the field for the members of f beyond the bounds. It also stands for everything below them.
func (f *field) overflowField() *field {
	if f.overflow == nil {
		f.overflow = &field{}
		f.overflow.overflow = f.overflow
	}
	return f.overflow
}

// unquote decodes a string that was already validated.
func unquote(raw []byte) string {
	if isPlain(raw) {
		return string(raw[1 : len(raw)-1])
	}
	return string(appendUnquoted(nil, raw))
}

// appendUnquoted appends the decoded string to dst. Invalid UTF-8 becomes U+FFFD.
func appendUnquoted(dst, raw []byte) []byte {
	if isPlain(raw) {
		return append(dst, raw[1:len(raw)-1]...)
	}
	// The only possible error is invalid UTF-8, which is replaced.
	dst, _ = jsontext.AppendUnquote(dst, raw)
	return dst
}

// isPlain reports whether a string is ASCII without escapes, so that its bytes are its value.
func isPlain(raw []byte) bool {
	return bytes.IndexByte(raw, '\\') < 0 && isASCII(raw)
}

func isASCII(text []byte) bool {
	for _, c := range text {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// A lookup that finds nothing costs a table entry, and separate memory for its strings.
var (
	containers = share.Policy{Direct: 2, Second: share.Never, First: 256, Window: 256, Sampled: 64} // maps and slices, which are expensive
	scalars    = share.Policy{Direct: 6, Second: share.Never, First: 256, Window: 256, Sampled: 64}
)

// shouldLookUp reports whether text should be looked up.
func (b *builder) shouldLookUp(r *share.Rate, text []byte) bool {
	return r.Mode != share.Sampling || r.Samples(b.table.hash.class(text))
}
