package cli

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Wrap breaks the lines of text that are longer than width. What follows a break is indented to where the line's first
// word begins, past a sign such as "~". At most rows lines are made of one, the last with a mark if something is missing;
// 0 means any number. Colors are kept.
func Wrap(text string, width, rows int) string {
	if width <= 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		body, end := strings.CutSuffix(line, "\n")
		wrapLine(&b, body, width, rows)
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func wrapLine(b *strings.Builder, line string, width, rows int) {
	if ansi.StringWidth(line) <= width {
		b.WriteString(line)
		return
	}
	indent := hang(ansi.Strip(line))
	if indent > width/2 {
		indent = 0
	}
	lines := strings.Split(ansi.Wrap(ansi.TruncateLeft(line, indent, ""), width-indent, " "), "\n")
	if rows > 0 && len(lines) > rows {
		lines = append(lines[:rows-1], ansi.Truncate(strings.Join(lines[rows-1:], " "), width-indent, "…"))
	}
	b.WriteString(ansi.Truncate(line, indent, ""))
	b.WriteString(strings.Join(lines, "\n"+strings.Repeat(" ", indent)))
}

// hang returns the number of columns before a line's first word, past a sign such as "~".
func hang(line string) int {
	words := strings.TrimLeft(line, " ")
	if words == "" || !strings.ContainsAny(words[:1], "~+-") || !strings.HasPrefix(words[1:], " ") {
		return len(line) - len(words)
	}
	return len(line) - len(words) + 2
}
