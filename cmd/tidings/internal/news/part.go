package news

import (
	"strings"
	"unicode/utf8"

	"github.com/tidings/tidings/cmd/tidings/internal/diff"
)

// part is where two long values differ. It never shows the same for both.
type part struct {
	// oldLine and newLine are the lines at which the part begins, from 1; 0 for values of one line.
	oldLine, newLine int
	// offset is how many bytes are before what is shown: in the lines of this part, or in values of one line.
	offset int
	// old and new are the text before and after: whole lines, each with its end, of texts of many; and of long ones only what
	// differs and follows.
	old, new string
	// oldCut and newCut say that there is more behind.
	oldCut, newCut bool
	// isJSON says that old and new are parts of JSON, and not of a text.
	isJSON bool
}

// context is how many bytes, at most, are shown before the first difference of a text that is cut.
const context = 20

// partsOf returns the parts in which the values of a change differ, if one of them is too long to be shown and what is shown
// of both is much the same; else none. Texts of several lines are compared by lines, and what is no text as JSON.
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
		return nil // they differ where everybody sees it
	}
	if !isText {
		before, after = oldJSON, newJSON
	}
	p := narrow(before, after, limit)
	p.isJSON = !isText
	return []part{p}
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

// joinLines ends every line, so that one empty line is not the same as none.
func joinLines(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// narrow returns the part of two texts in which they differ, with at most limit bytes of each, but no less than one character.
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

// commonPrefix returns how many bytes two texts have in common at the beginning, in whole characters.
func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return runeStart(a, n)
}

// runeStart returns where the character begins that the byte at this place belongs to.
func runeStart(s string, at int) int {
	for at > 0 && at < len(s) && !utf8.RuneStart(s[at]) {
		at--
	}
	return at
}

// shortenPast cuts text to at most limit bytes, but behind the character at must, if there is one.
func shortenPast(text string, must, limit int) (short string, cut bool) {
	_, size := utf8.DecodeRuneInString(text[min(must, len(text)):])
	return shorten(text, max(limit, must+size))
}
