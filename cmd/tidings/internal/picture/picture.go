// Package picture draws what a command has written on a terminal, as an SVG for the documentation.
package picture

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// The sizes, in pixels.
const (
	charWidth  = 7.8
	lineHeight = 19
	margin     = 16
)

// style has the classes of the colors and of bold text.
const style = `text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d0d7de;white-space:pre}` +
	`.c2{fill:#8b949e}.c31{fill:#ff7b72}.c32{fill:#7ee787}.c33{fill:#e3b341}.c1{font-weight:bold;fill:#f0f6fc}.prompt{fill:#79c0ff}.c7{fill:#0d1117}`

// SVG draws a terminal with a command and its output, in which escape sequences set colors. label says what is to be
// seen.
func SVG(label, command, output string) string {
	lines := strings.Split(strings.TrimRight(output, "\n"), "\n")
	columns := ansi.StringWidth(command) + 2
	for _, line := range lines {
		columns = max(columns, ansi.StringWidth(line))
	}
	width, height := int(float64(columns)*charWidth)+2*margin, (len(lines)+2)*lineHeight+margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img" aria-label="%s">`+"\n", width, height, escape(label))
	fmt.Fprintf(&b, "<style>%s</style>\n<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#0d1117\"/>\n", style, width,
		height)
	fmt.Fprintf(&b, `<text x="%d" y="30" class="prompt">$ %s</text>`+"\n", margin, escape(command))
	for i, line := range lines {
		drawLine(&b, line, 30+(i+1)*lineHeight)
	}
	return b.String() + "</svg>\n"
}

// drawLine draws the pieces of a line that have the same color, each at its column.
func drawLine(b *strings.Builder, line string, y int) {
	column, class := 0, ""
	for line != "" {
		if end := strings.IndexByte(line, 'm'); strings.HasPrefix(line, "\x1b[") && end > 0 {
			if class = "c" + line[2:end]; class == "c0" || class == "c" {
				class = ""
			}
			line = line[end+1:]
			continue
		}
		end := len(line)
		if next := strings.IndexByte(line[1:], 0x1b); next >= 0 {
			end = next + 1
		}
		drawPiece(b, line[:end], class, column, y)
		column += ansi.StringWidth(line[:end])
		line = line[end:]
	}
}

func drawPiece(b *strings.Builder, piece, class string, column, y int) {
	x := margin + float64(column)*charWidth
	width := float64(ansi.StringWidth(piece)) * charWidth
	if class == "c7" { // inverse
		fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#8b949e"/>`, x, y-14, width, lineHeight)
	}
	if strings.TrimSpace(piece) == "" {
		return
	}
	attributes := ""
	if class != "" {
		attributes = fmt.Sprintf(` class="%s"`, class)
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%d" textLength="%.1f" xml:space="preserve"%s>%s</text>`+"\n", x, y, width,
		attributes, escape(piece))
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder does not fail
	return b.String()
}
