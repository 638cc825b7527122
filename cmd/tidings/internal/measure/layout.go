package measure

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// gap separates two columns.
const gap = "  "

// align writes rows with the same number of cells: the first column aligned left, all others right.
func align(b *strings.Builder, rows [][]string) {
	widths := columnWidths(rows)
	for _, row := range rows {
		for i, cell := range row {
			if i == 0 {
				b.WriteString(cell + pad(widths[i], cell))
				continue
			}
			b.WriteString(gap + pad(widths[i], cell) + cell)
		}
		b.WriteByte('\n')
	}
}

func pad(width int, cell string) string {
	return strings.Repeat(" ", width-utf8.RuneCountInString(cell))
}

func columnWidths(rows [][]string) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// fit makes rows fit into width characters; 0 means any width. It drops the expendable columns one
// after the other, and then shortens the names in the first column. It returns the names of the
// dropped columns.
func fit(rows [][]string, width int, expendable ...string) (fitting [][]string, left []string) {
	for _, name := range expendable {
		at := slices.Index(rows[0], name)
		if width == 0 || tableWidth(rows) <= width {
			return rows, left
		}
		if at < 0 {
			continue
		}
		for i, row := range rows {
			rows[i] = slices.Delete(slices.Clone(row), at, at+1)
		}
		left = append(left, name)
	}
	if over := tableWidth(rows) - width; over > 0 {
		shortenFirst(rows, max(minName, columnWidths(rows)[0]-over))
	}
	return rows, left
}

// minName is the minimum length to which a name is shortened.
const minName = 8

func tableWidth(rows [][]string) int {
	sum := -len(gap)
	for _, width := range columnWidths(rows) {
		sum += width + len(gap)
	}
	return sum
}

// shortenFirst cuts the cells of the first column to width characters.
func shortenFirst(rows [][]string, width int) {
	for i, row := range rows {
		if runes := []rune(row[0]); len(runes) > width {
			rows[i] = slices.Clone(row)
			rows[i][0] = string(runes[:width-1]) + "…"
		}
	}
}

// wrap breaks lines between words so that they have at most width characters; 0 means any width.
func wrap(text string, width int) string {
	if width == 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		used := 0
		for word := range strings.FieldsSeq(line) {
			n := utf8.RuneCountInString(word)
			switch {
			case used == 0:
			case used+1+n > width:
				b.WriteByte('\n')
				used = 0
			default:
				b.WriteByte(' ')
				used++
			}
			b.WriteString(word)
			used += n
		}
		if strings.HasSuffix(line, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
