package apiwrite

import (
	"bytes"
	"encoding/json"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// parseJSON reads an answer in JSON.
func parseJSON(data []byte, a *Answer) {
	l := &lexer{data: data, ok: true}
	l.answer(a)
}

// deleting is the deletion timestamp of objects in answers. Only its being there matters.
var deleting metav1.Time

// answer reads the answer, up to where nothing can follow that matters.
func (l *lexer) answer(a *Answer) {
	var kind []byte
	var status string
	var uid types.UID
	var reason string
	var items []Object
	listed := false
	for name, more := l.field(true); more; name, more = l.field(false) {
		switch string(name) {
		case "kind":
			kind = l.raw()
		case "metadata":
			l.metadata(&a.Object)
			a.Object.MetadataOnly = string(kind) == `"`+metadataKind+`"`
			if l.ok && a.IsObject() && string(kind) != `"Namespace"` {
				return // nothing that matters follows
			}
		case "spec":
			l.spec(&a.Object)
		case "status":
			status = l.text()
		case "reason":
			reason = l.text()
		case "details":
			uid = types.UID(l.detailsUID())
		case "items":
			listed = true
			items = l.items()
		default:
			l.skip()
		}
	}
	switch {
	case !l.ok:
		a.Object.UID = ""
	case listed:
		a.IsList, a.Items, a.Continue, a.Object = true, items, a.Object.next, Object{}
	case string(kind) == `"Status"`, status == metav1.StatusSuccess, status == metav1.StatusFailure:
		a.IsStatus, a.UID, a.Reason = true, uid, metav1.StatusReason(reason)
	}
}

// items reads the items of a list.
func (l *lexer) items() (items []Object) {
	for more := l.element(true); more; more = l.element(false) {
		var o Object
		for name, more := l.field(true); more; name, more = l.field(false) {
			if string(name) == "metadata" {
				l.metadata(&o)
			} else {
				l.skip()
			}
		}
		items = append(items, o)
	}
	return items
}

func (l *lexer) metadata(o *Object) {
	if l.null() {
		return
	}
	for name, more := l.field(true); more; name, more = l.field(false) {
		switch string(name) {
		case "name":
			o.Name = l.text()
		case "generateName":
			o.GenerateName = l.text()
		case "continue":
			o.next = l.text()
		case "namespace":
			o.Namespace = l.text()
		case "uid":
			o.UID = types.UID(l.text())
		case "resourceVersion":
			o.ResourceVersion = l.text()
		case "deletionTimestamp":
			if !l.null() {
				o.DeletionTimestamp = &deleting
				l.skip()
			}
		case "deletionGracePeriodSeconds":
			if seconds, err := strconv.ParseInt(string(l.raw()), 10, 64); err == nil { // else it is null
				o.DeletionGracePeriodSeconds = &seconds
			}
		case "labels":
			o.labels = l.raw()
		case "finalizers":
			o.Finalizers = l.texts()
		default:
			l.skip()
		}
	}
}

// spec reads the number of finalizers in a spec.
func (l *lexer) spec(o *Object) {
	if l.next() != '{' {
		l.skip()
		return
	}
	for name, more := l.field(true); more; name, more = l.field(false) {
		if string(name) == "finalizers" {
			o.SpecFinalizers = len(l.texts())
		} else {
			l.skip()
		}
	}
}

func (l *lexer) detailsUID() (uid string) {
	if l.next() != '{' {
		l.skip()
		return ""
	}
	for name, more := l.field(true); more; name, more = l.field(false) {
		if string(name) == "uid" {
			uid = l.text()
		} else {
			l.skip()
		}
	}
	return uid
}

// lexer reads JSON. It stops at what is not JSON, or at the end of the data; ok is false then.
type lexer struct {
	data []byte
	pos  int
	ok   bool
}

// next returns the next byte that is not space, without consuming it; 0 if there is none.
func (l *lexer) next() byte {
	for ; l.ok && l.pos < len(l.data); l.pos++ {
		switch c := l.data[l.pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	l.ok = false
	return 0
}

// take consumes the next byte if it is c.
func (l *lexer) take(c byte) bool {
	if l.next() != c {
		return false
	}
	l.pos++
	return true
}

// expect consumes the next byte, which must be c.
func (l *lexer) expect(c byte) { l.ok = l.take(c) && l.ok }

// field moves to the value of an object's first or next field, and returns the field's name. It returns false after
// the last one.
func (l *lexer) field(first bool) (name []byte, more bool) {
	if first {
		l.expect('{')
	}
	if l.take('}') {
		return nil, false
	}
	if !first {
		l.expect(',')
	}
	name = l.str()
	l.expect(':')
	return name, l.ok
}

// element moves to an array's first or next element. It returns false after the last one.
func (l *lexer) element(first bool) (more bool) {
	if first {
		if l.null() {
			return false
		}
		l.expect('[')
	}
	if l.take(']') {
		return false
	}
	if !first {
		l.expect(',')
	}
	return l.ok
}

// null consumes a null.
func (l *lexer) null() bool {
	if l.next() != 'n' {
		return false
	}
	l.skip()
	return true
}

// str consumes a string, and returns what is between its quotes.
func (l *lexer) str() []byte {
	l.expect('"')
	start := l.pos
	for l.ok {
		i := bytes.IndexByte(l.data[l.pos:], '"')
		if i < 0 {
			break
		}
		l.pos += i + 1
		if !escaped(l.data[start : l.pos-1]) {
			return l.data[start : l.pos-1]
		}
	}
	l.ok = false
	return nil
}

// escaped reports whether text ends in an odd number of backslashes.
func escaped(text []byte) bool {
	n := 0
	for n < len(text) && text[len(text)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// text consumes a string, and returns it. It returns "" for another value.
func (l *lexer) text() string {
	if l.next() != '"' {
		l.skip()
		return ""
	}
	start := l.pos
	inside := l.str()
	if bytes.IndexByte(inside, '\\') < 0 {
		return string(inside)
	}
	return l.unescape(l.data[start:l.pos])
}

func (l *lexer) unescape(quoted []byte) (text string) {
	l.ok = l.ok && json.Unmarshal(quoted, &text) == nil
	return text
}

func (l *lexer) texts() (texts []string) {
	for more := l.element(true); more; more = l.element(false) {
		texts = append(texts, l.text())
	}
	return texts
}

// raw consumes a value, and returns its bytes.
func (l *lexer) raw() []byte {
	l.next()
	start := l.pos
	l.skip()
	return l.data[start:l.pos]
}

// skip consumes a value.
func (l *lexer) skip() {
	switch l.next() {
	case '"':
		l.str()
	case '{', '[':
		l.skipNested()
	default:
		for l.ok && l.pos < len(l.data) {
			switch l.data[l.pos] {
			case ',', '}', ']', ' ', '\t', '\n', '\r':
				return
			}
			l.pos++
		}
	}
}

func (l *lexer) skipNested() {
	depth := 0
	for l.ok && l.pos < len(l.data) {
		switch l.data[l.pos] {
		case '"':
			l.str()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		l.pos++
		if depth == 0 {
			return
		}
	}
	l.ok = false
}
