package json

import (
	"bytes"
	"errors"
)

// extent finds the end of a value by brackets and quotes alone, without validating what is between
// them. It can be resumed as more text arrives, and looks at each byte once. The result is exact if
// the value is valid.
type extent struct {
	at       int // the next byte to look at, relative to the start of the value
	depth    int // number of open brackets
	end      int // 0 until it is found
	inString bool
}

// find looks for the end in text, which starts with the value and may have grown since the last
// call. It returns the index after the value, 0 if no value can start here, or false if text ends
// too early to tell.
func (e *extent) find(text []byte) (end int, ok bool) {
	if e.end > 0 {
		return e.end, true
	}
	e.end, ok = e.search(text)
	return e.end, ok
}

func (e *extent) search(text []byte) (end int, ok bool) {
	if len(text) > 0 && text[0] != '{' && text[0] != '[' && text[0] != '"' {
		return e.searchScalar(text)
	}
	at, depth := e.at, e.depth
	for at < len(text) {
		if e.inString {
			if at, ok = stringEnd(text, at); !ok {
				break
			}
			if e.inString = false; depth == 0 {
				return at, true
			}
			continue
		}
		c := text[at]
		at++
		switch c {
		case '"':
			e.inString = true
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at, true
			}
		}
	}
	e.at, e.depth = at, depth
	return 0, false
}

// stringEnd returns the index after the closing quote of the string that text[at:] is in, or len(text) and false.
func stringEnd(text []byte, at int) (end int, ok bool) {
	for {
		quote := bytes.IndexByte(text[at:], '"')
		if quote < 0 {
			return len(text), false
		}
		at += quote + 1
		if text[at-2] != '\\' {
			return at, true
		}
		escapes := 1
		for text[at-2-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return at, true
		}
	}
}

// searchScalar finds the end of a number or literal, which takes seeing the byte after it.
func (e *extent) searchScalar(text []byte) (end int, ok bool) {
	if i := bytes.IndexAny(text[e.at:], "{}[]\",: \t\r\n"); i >= 0 {
		return e.at + i, true
	}
	e.at = len(text)
	return 0, false
}

// members iterates over the members of an object in memory. Names and values are not validated.
type members struct {
	name, value []byte // the current member; the name includes its quotes

	text  []byte
	at    int
	begun bool
	err   error
}

var errNotObject = errors.New("malformed JSON object")

// walk returns an iterator over the members of the object text.
func walk(text []byte) members {
	m := members{text: text}
	m.expect('{')
	return m
}

// next moves to the next member. It returns false after the last one, or with err set if the object is malformed.
func (m *members) next() bool {
	if m.err != nil || m.at > 0 && m.take('}') {
		return false
	}
	if m.begun {
		m.expect(',')
	}
	m.begun = true
	m.name = m.read()
	m.expect(':')
	m.value = m.read()
	if m.err == nil && m.name[0] != '"' {
		m.err = errNotObject
	}
	return m.err == nil
}

// read returns the next value, which is empty only if there is an error.
func (m *members) read() []byte {
	m.space()
	var e extent
	end, ok := e.find(m.text[m.at:])
	if !ok || end == 0 {
		m.err = errNotObject
		return nil
	}
	m.at += end
	return m.text[m.at-end : m.at]
}

func (m *members) expect(c byte) {
	if !m.take(c) {
		m.err = errNotObject
	}
}

// take skips c if it comes next.
func (m *members) take(c byte) bool {
	m.space()
	if m.at < len(m.text) && m.text[m.at] == c {
		m.at++
		return true
	}
	return false
}

func (m *members) space() {
	for m.at < len(m.text) && isSpace(m.text[m.at]) {
		m.at++
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
