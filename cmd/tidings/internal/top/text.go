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
// Lines have at most width characters; 0 means any width. height is the number of lines that there
// is room for; 0 means any number.
func (r Report) Text(g Group, sort string, width, height int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d writes in %.0fs, %d of them useless: they changed nothing but times or bookkeeping\n\n", r.Writes, r.Seconds, r.Useless)
	fmt.Fprintf(&b, "%8s %8s %8s %8s %9s  BY %s\n", "WRITES", "PER SEC", "PER MIN", "USELESS", "BYTES", strings.ToUpper(string(g)))
	rows := slices.Clone(r.Groups[g])
	slices.SortStableFunc(rows, func(a, b Row) int { return int(b.column(sort)) - int(a.column(sort)) })
	room := len(rows)
	if height > 0 {
		room = max(height-5-min(len(r.Fights), 5), 1)
	}
	for _, row := range rows[:min(len(rows), room)] {
		fmt.Fprintf(&b, "%8d %8.1f %8.1f %8d %9d  %s\n", row.Writes, row.PerSecond, row.PerMinute, row.Useless, row.Bytes, cli.Printable(row.Name))
	}
	for i, f := range r.Fights {
		if i == 0 {
			b.WriteString("\nFights: fields that two managers set back and forth\n")
		}
		if i == 5 && height > 0 {
			break
		}
		fmt.Fprintf(&b, "  %s %s: %s sets %s, %s sets %s (%d times)\n", cli.Printable(f.Object), cli.Printable(f.Path),
			cli.Printable(f.Managers[0]), short(f.Values[0]), cli.Printable(f.Managers[1]), short(f.Values[1]), f.Flips)
	}
	return cli.Fit(b.String(), width)
}

func (r Row) column(name string) float64 {
	switch name {
	case "useless":
		return float64(r.Useless)
	case "bytes":
		return float64(r.Bytes)
	default:
		return float64(r.Writes)
	}
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
