package json

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/share"
)

// field is one place in the documents: all values that have the same names around them, whatever list they are in.
// A field knows the fields below it, so that their names are decoded only once, and whether it is worth looking its
// values up.
type field struct {
	name  string // decoded
	raw   string // as in the text, with quotes
	path  int    // bytes of the names from the top
	trim  *trimNode
	under map[string]*field // by raw name
	first *field            // the first member last time
	after *field            // the member that came behind this one last time
	other *field            // stands for the members that found no room; it has neither name nor raw, and is its own other
	stats wire.FieldStats
	rate  share.Rate // of its values but maps
	maps  share.Rate // of the maps whose second, or only, member it is: a list may have maps of several kinds, of which some repeat
	names share.Rate // of the names that it stands for
}

const (
	// Documents may use data as names. Members beyond these bounds share one field.
	maxFieldsUnder = 128
	maxFields      = 8192
	maxPath        = 512
	// fieldBytes is about what a field needs besides its names.
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

// member returns the field of the member called raw in objects at f. The member before it in the document is
// before, or nil: members mostly come in the same order as last time, which saves the search.
func (fs *fields) member(f, before *field, raw []byte) *field {
	guess := &f.first
	if before != nil {
		guess = &before.after
	}
	if g := *guess; g != nil && g.raw == string(raw) {
		return g
	}
	m, ok := f.under[string(raw)]
	if !ok {
		return fs.add(f, raw)
	}
	*guess = m
	return m
}

// add makes the field for a member that was not seen before. Where there is no room, it returns one that stands for all
// such members, or if there is something to trim, one that is used only this time.
func (fs *fields) add(f *field, raw []byte) *field {
	full := f.other == f || len(f.under) >= maxFieldsUnder || fs.count >= maxFields || f.path+len(raw) > maxPath
	if full && f.trim == nil {
		return f.rest()
	}
	m := &field{raw: string(raw), path: f.path + len(raw)}
	m.name = m.raw[1 : len(raw)-1]
	if !isPlain(raw) {
		m.name = unquote(raw)
	}
	m.trim = f.trim.member(m.name)
	if full && m.trim == nil {
		return f.rest()
	}
	if full {
		m.name, m.raw, m.other = "", "", m
		return m
	}
	if f.under == nil {
		f.under = map[string]*field{}
	}
	f.under[m.raw] = m
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

// find returns the name of the field to, as it is below f.
func (f *field) find(to *field) (name string, ok bool) {
	for _, m := range f.under {
		if m == to {
			return m.name, true
		}
		if below, ok := m.find(to); ok {
			return m.name + "." + below, true
		}
	}
	return "", false
}

// rest returns the field for the members of f that found no room. All that is below it is the same field.
func (f *field) rest() *field {
	if f.other == nil {
		f.other = &field{}
		f.other.other = f.other
	}
	return f.other
}

// unquote decodes a string that the tokenizer has validated.
func unquote(raw []byte) string {
	if isPlain(raw) {
		return string(raw[1 : len(raw)-1])
	}
	return string(appendUnquoted(nil, raw))
}

// appendUnquoted appends the decoded string to dst. What is not UTF-8 becomes U+FFFD.
func appendUnquoted(dst, raw []byte) []byte {
	if isPlain(raw) {
		return append(dst, raw[1:len(raw)-1]...)
	}
	// The only error it can have is that of invalid UTF-8, which is replaced.
	dst, _ = jsontext.AppendUnquote(dst, raw)
	return dst
}

// isPlain reports whether a string is ASCII without escapes, so that it stands for itself.
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

// What is looked up in vain costs an entry of the table, and memory of its own for the strings in it.
var (
	containers = share.Policy{Direct: 2, Second: share.Never, First: 256, Window: 256, Sampled: 64} // maps and slices, which are dear
	scalars    = share.Policy{Direct: 6, Second: share.Never, First: 256, Window: 256, Sampled: 64}
)

// wants reports whether text shall be looked up.
func (b *builder) wants(r *share.Rate, text []byte) bool {
	return r.Mode != share.Sampling || r.Samples(b.table.hash.class(text))
}
