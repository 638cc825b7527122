package migrate

import (
	"bytes"
	"fmt"
	"go/format"
	"go/token"
	"slices"
)

// edit replaces the text between two positions.
type edit struct {
	from, to token.Pos
	text     string
	about    string // what is changed, for messages
}

// apply applies the edits. The result is formatted if the input was, and has the same line ends. A
// file with line ends of both kinds is not formatted, and stays as it is between the edits.
func apply(before []byte, edits []edit, fset *token.FileSet) ([]byte, error) {
	slices.SortFunc(edits, func(a, b edit) int { return int(a.from - b.from) })
	var after []byte
	done := 0
	for _, e := range edits {
		from, to := fset.PositionFor(e.from, false).Offset, fset.PositionFor(e.to, false).Offset
		if from < done || to < from || to > len(before) {
			return nil, fmt.Errorf("the file changed while it was being read")
		}
		after = append(append(after, before[done:from]...), e.text...)
		done = to
	}
	after = append(after, before[done:]...)
	crlf := bytes.Contains(before, []byte("\r\n")) && bytes.Count(before, []byte("\r\n")) == bytes.Count(before, []byte("\n"))
	if crlf {
		before, after = withLF(before), withLF(after)
	}
	formatted, err := format.Source(after)
	if err != nil {
		return nil, fmt.Errorf("the changed file does not parse: %w", err)
	}
	if same, err := format.Source(before); err == nil && bytes.Equal(same, before) {
		after = formatted
	}
	if crlf {
		after = bytes.ReplaceAll(after, []byte("\n"), []byte("\r\n"))
	}
	return after, nil
}

func withLF(text []byte) []byte { return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")) }
