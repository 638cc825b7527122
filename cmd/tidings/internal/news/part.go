package news

import (
	"strings"
	"unicode/utf8"

	"github.com/tidings/tidings/cmd/tidings/internal/diff"
)

// part is a place where two long values differ. It is never the same on both sides.
type part struct {
	// oldLine and newLine are the lines at which the part begins, counted from 1; 0 for single-line values.
	oldLine, newLine int
	// offset is the number of bytes before what is shown: within the lines of this part, or within a single-line value.
	offset int
	// old and new are the text before and after: whole lines, including their ends, of multi-line
	// texts, and for long ones only what differs and follows.
	old, new string
	// oldCut and newCut say that there is more text after old and new.
	oldCut, newCut bool
	// isJSON says that old and new are parts of JSON rather than of a string.
	isJSON bool
}

// context is the maximum number of bytes shown before the first difference in a truncated text.
const context = 20

// partsOf returns the parts in which the values of a change differ, if one of them is too long to
// be shown and their truncated forms are nearly the same; otherwise none. Multi-line strings are
// compared by lines, and anything but a string as JSON.
func partsOf(c diff.Change, limit int) []part {
	oldJSON, newJSON := string(encode(c.Old)), string(encode(c.New))
	if c.Op != diff.Changed && c.Op != diff.Reordered || limit <= 0 || max(len(oldJSON), len(newJSON)) <= limit {
		return nil
	}
	before, wasText := c.Old.(string)
	after, isText := c.New.(string)
	isText = isText && wasText
	if isText && strings.Contains(before, "\n") && strings.Contains(after, "\n") {
		return partsOfLines(before, after, limit)
	}
	if commonPrefix(oldJSON, newJSON)+utf8.UTFMax <= limit/2 {
		return nil // the difference is visible anyway
	}
	if !isText {
		before, after = oldJSON, newJSON
	}
	p := narrow(before, after, limit)
	p.isJSON = !isText
	return []part{p}
}

// linesOf returns the lines in which two texts differ that are short enough to be shown as a whole; none unless both
// have several lines.
func linesOf(c diff.Change, limit int) []part {
	before, wasText := c.Old.(string)
	after, isText := c.New.(string)
	if c.Op != diff.Changed || !wasText || !isText || !strings.Contains(before, "\n") ||
		!strings.Contains(after, "\n") {
		return nil
	}
	return partsOfLines(before, after, max(limit, len(before), len(after)))
}

func partsOfLines(before, after string, limit int) []part {
	var parts []part
	for _, h := range compareLines(strings.Split(before, "\n"), strings.Split(after, "\n")) {
		p := narrow(joinLines(h.old), joinLines(h.new), limit)
		p.oldLine, p.newLine = h.oldAt+1, h.newAt+1
		parts = append(parts, p)
	}
	return parts
}

// joinLines ends every line, so that one empty line differs from none.
func joinLines(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// narrow returns the part of two texts in which they differ, with at most limit bytes of each, but
// at least one character.
func narrow(before, after string, limit int) part {
	if len(before) <= limit && len(after) <= limit {
		return part{old: before, new: after}
	}
	same := commonPrefix(before, after)
	start := runeStart(before, max(0, same-min(context, limit/4)))
	p := part{offset: start}
	p.old, p.oldCut = shortenPast(before[start:], same-start, limit)
	p.new, p.newCut = shortenPast(after[start:], same-start, limit)
	return p
}

// commonPrefix returns the length in bytes of the longest common prefix of whole characters.
func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return runeStart(a, n)
}

// runeStart returns the start of the character to which the byte at this position belongs.
func runeStart(s string, at int) int {
	for at > 0 && at < len(s) && !utf8.RuneStart(s[at]) {
		at--
	}
	return at
}

// shortenPast cuts text to at most limit bytes, but not before the end of the character at must, if there is one.
func shortenPast(text string, must, limit int) (short string, cut bool) {
	_, size := utf8.DecodeRuneInString(text[min(must, len(text)):])
	return shorten(text, max(limit, must+size))
}
