package top

import (
	"cmp"
	"fmt"
	"slices"
)

// column is one column of the table.
type column struct {
	name, title string
	width       int
	text        func(Row) string
	compare     func(a, b Row) int
}

// columns are all columns but the name, from left to right.
var columns = []column{
	count("writes", "WRITES", 8, func(r Row) int { return r.Writes }),
	rate("per-sec", "PER SEC", 8, func(r Row) float64 { return r.PerSecond }),
	rate("per-min", "PER MIN", 8, func(r Row) float64 { return r.PerMinute }),
	count("useless", "USELESS", 8, func(r Row) int { return r.Useless }),
	count("bytes", "BYTES", 9, func(r Row) int { return r.Bytes }),
}

// byName is the column by which names are sorted.
const byName = "name"

func count(name, title string, width int, of func(Row) int) column {
	return column{name, title, width, func(r Row) string { return fmt.Sprint(of(r)) }, func(a, b Row) int { return cmp.Compare(of(b), of(a)) }}
}

func rate(name, title string, width int, of func(Row) float64) column {
	return column{name, title, width, func(r Row) string { return fmt.Sprintf("%.1f", of(r)) }, func(a, b Row) int { return cmp.Compare(of(b), of(a)) }}
}

// Columns returns the names of the columns that a table can be sorted by.
func Columns() (names []string) {
	for _, c := range columns {
		names = append(names, c.name)
	}
	return append(names, byName)
}

// sortRows sorts by a column: numbers from the largest, names from the first; reverse turns that round.
func sortRows(rows []Row, by string, reverse bool) {
	compare := func(a, b Row) int { return cmp.Compare(a.Name, b.Name) }
	if i := slices.IndexFunc(columns, func(c column) bool { return c.name == by }); i >= 0 {
		compare = func(a, b Row) int { return cmp.Or(columns[i].compare(a, b), cmp.Compare(a.Name, b.Name)) }
	}
	slices.SortFunc(rows, func(a, b Row) int {
		if reverse {
			return compare(b, a)
		}
		return compare(a, b)
	})
}
