package cli

import (
	"strings"
	"unicode/utf8"
)

// Fit cuts each line of text to width characters, with a mark where something is missing; 0 means
// any width. Escape sequences that set colors take no room, and are kept.
func Fit(text string, width int) string {
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		body, end := strings.CutSuffix(line, "\n")
		fitLine(&b, body, width)
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func fitLine(b *strings.Builder, line string, width int) {
	if visible(line) <= width {
		b.WriteString(line)
		return
	}
	n := 0
	for i := 0; i < len(line); {
		if size := escape(line[i:]); size > 0 { // also behind the end, since it may reset the color
			b.WriteString(line[i : i+size])
			i += size
			continue
		}
		_, size := utf8.DecodeRuneInString(line[i:])
		switch n++; {
		case n < width:
			b.WriteString(line[i : i+size])
		case n == width:
			b.WriteString("…")
		}
		i += size
	}
}

func visible(line string) (n int) {
	for i := 0; i < len(line); {
		if size := escape(line[i:]); size > 0 {
			i += size
			continue
		}
		_, size := utf8.DecodeRuneInString(line[i:])
		i += size
		n++
	}
	return n
}

// escape returns the length of the color sequence at the beginning of s, or 0.
func escape(s string) int {
	if !strings.HasPrefix(s, "\x1b[") {
		return 0
	}
	return strings.IndexByte(s, 'm') + 1
}
