package cli

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Wrap breaks the lines of text that are longer than width. What follows a break is indented to where the line's first
// word begins, past a sign such as "~", or if that is the first column, to the fifth. At most rows lines are made of
// one, the last with a mark if something is missing;
// 0 means any number. Colors are kept.
func Wrap(text string, width, rows int) string {
	if width <= 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		body, end := strings.CutSuffix(line, "\n")
		if len(body) > width { // no character takes more columns than bytes
			body = wrapLine(body, width, rows, hang(ansi.Strip(body)))
		}
		b.WriteString(body)
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// WrapLine is Wrap for one line, with another indent for what follows a break.
func WrapLine(line string, width, rows, indent int) string {
	if width <= 0 {
		return line
	}
	return wrapLine(line, width, rows, indent)
}

func wrapLine(line string, width, rows, indent int) string {
	if ansi.StringWidth(line) <= width {
		return line
	}
	if rows == 1 {
		return ansi.Truncate(line, width, "…")
	}
	begin := hang(ansi.Strip(line))
	if max(begin, indent) > width/2 {
		begin, indent = 0, 0
	}
	if indent == 0 && width > 2*hanging {
		indent = hanging
	}
	head, body := "", line
	if begin > 0 {
		head, body = ansi.Truncate(line, begin, ""), ansi.TruncateLeft(line, begin, "")
	}
	first, _, _ := strings.Cut(ansi.Wrap(body, width-begin, " "), "\n")
	rest := ansi.Strip(ansi.TruncateLeft(body, ansi.StringWidth(first), ""))
	spaces := len(rest) - len(strings.TrimLeft(rest, " "))
	rest = ansi.TruncateLeft(body, ansi.StringWidth(first)+spaces, "")
	lines := strings.Split(ansi.Wrap(rest, width-indent, " "), "\n")
	if rows > 0 && len(lines) > rows-1 {
		lines = append(lines[:rows-2], ansi.Truncate(strings.Join(lines[rows-2:], " "), width-indent, "…"))
	}
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	pad := "\n" + strings.Repeat(" ", indent)
	return head + first + pad + strings.Join(lines, pad)
}

// hanging is the indent of what follows the break of a line that has none.
const hanging = 4

// hang returns the number of columns before a line's first word, past a sign such as "~".
func hang(line string) int {
	words := strings.TrimLeft(line, " ")
	if words == "" || !strings.ContainsAny(words[:1], "~+-") || !strings.HasPrefix(words[1:], " ") {
		return len(line) - len(words)
	}
	return len(line) - len(words) + 2
}
