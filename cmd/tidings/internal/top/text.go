package top

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
)

// Text formats a report for people: one group as a table, by the column to sort by, and the fights.
// Lines have at most width characters; 0 means any width.
func (r Report) Text(g Group, sort string, width int) string {
	var b strings.Builder
	b.WriteString(cli.Wrap(r.headline(), width, 0) + "\n\n")
	for _, c := range columns {
		fmt.Fprintf(&b, "%*s ", c.width, c.title)
	}
	fmt.Fprintf(&b, " BY %s\n", strings.ToUpper(string(g)))
	rows := slices.Clone(r.Groups[g])
	sortRows(rows, sort, false)
	for _, row := range rows {
		b.WriteString(cli.Fit(row.text(), width) + "\n")
	}
	for i, f := range r.Fights {
		if i == 0 {
			b.WriteString("\n" + fightsTitle + "\n")
		}
		b.WriteString(cli.WrapLine("  "+f.text(), width, 0, 4) + "\n")
	}
	return b.String()
}

const fightsTitle = "Fights: fields that two managers set back and forth"

func (r Report) headline() string {
	return fmt.Sprintf("%d writes in %.0fs, %d of them useless: they changed nothing but times or bookkeeping", r.Writes, r.Seconds, r.Useless)
}

// text formats the row as a line of the table.
func (r Row) text() string {
	var b strings.Builder
	for _, c := range columns {
		fmt.Fprintf(&b, "%*s ", c.width, c.text(r))
	}
	return b.String() + " " + cli.Printable(r.Name)
}

func (f Fight) text() string {
	return fmt.Sprintf("%s %s: %s sets %s, %s sets %s (%d times)", cli.Printable(f.Object), cli.Printable(f.Path),
		cli.Printable(f.Managers[0]), short(f.Values[0]), cli.Printable(f.Managers[1]), short(f.Values[1]), f.Flips)
}

// short formats a value in a few characters.
func short(v any) string {
	const most = 30
	text, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	s := cli.Printable(string(text))
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most-1]) + "…"
	}
	return s
}
