package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"golang.org/x/term"
)

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Width returns the width of the terminal in characters, 80 if it is unknown, and 0 if w is not a terminal.
func Width(w io.Writer) int {
	if !IsTerminal(w) {
		return 0
	}
	if columns, _, err := term.GetSize(int(w.(*os.File).Fd())); err == nil && columns > 0 {
		return columns
	}
	return 80
}

// firstRunes returns at most n characters of s.
func firstRunes(s string, n int) string {
	runes := []rune(s)
	return string(runes[:min(len(runes), n)])
}

// Colors reports whether to write colors to w: only to a terminal, and not if NO_COLOR is set to
// anything (https://no-color.org) or the terminal is dumb.
func Colors(w io.Writer) bool {
	return IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Printable returns s with everything that a terminal would interpret instead of displaying, such
// as escape sequences and line feeds, escaped as in Go.
func Printable(s string) string {
	if IsPlain(s) {
		return s
	}
	s = strings.ToValidUTF8(s, "\ufffd")
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// PrintableJSON returns the JSON text with everything that a terminal would interpret instead of
// displaying, such as C1 controls and bidirectional marks, escaped as in JSON. Line feeds are kept,
// since in JSON they only occur between values.
func PrintableJSON(text []byte) []byte {
	if IsPlain(text) {
		return text
	}
	obeyed := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
	if bytes.IndexFunc(text, obeyed) < 0 {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		switch high, low := utf16.EncodeRune(r); {
		case !obeyed(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

// IsPlain reports whether a text consists of printable characters of ASCII, as nearly every one does.
func IsPlain[T string | []byte](text T) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// Height returns the number of lines of the terminal, 24 if it is unknown, and 0 if w is not a terminal.
func Height(w io.Writer) int {
	if !IsTerminal(w) {
		return 0
	}
	if _, lines, err := term.GetSize(int(w.(*os.File).Fd())); err == nil && lines > 0 {
		return lines
	}
	return 24
}
