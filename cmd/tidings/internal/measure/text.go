package measure

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
)

// Text returns the report for people: a table, what it adds up to, and the fields of each resource that share most, so
// many of them.
func (r Report) Text(fields int) string {
	var b strings.Builder
	if len(r.Resources) > 0 {
		r.table(&b)
		b.WriteString("\n" + r.sentence() + "\n")
		b.WriteString(r.notes())
	}
	if fields > 0 {
		for _, result := range r.Resources {
			result.fields(&b, fields)
		}
	}
	if len(r.Failures) > 0 {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("Not measured:\n")
		for _, f := range r.Failures {
			fmt.Fprintf(&b, "  %s: %s\n", f.Resource, cli.Printable(f.Message))
		}
	}
	return b.String()
}

func (r Report) table(b *strings.Builder) {
	trimmed := r.Total.TidingsTrimmed != nil
	rows := [][]string{header(trimmed)}
	for _, result := range r.Resources {
		row := Total{
			result.Objects, result.Extrapolated, result.WireBytes, result.FetchSeconds, result.ClientGo, result.Tidings, result.ClientGoTrimmed, result.TidingsTrimmed,
			ratio(result.Tidings.CacheBytes, result.ClientGo.CacheBytes),
		}
		if result.Objects == 0 {
			row.Ratio = 0 // nothing to compare
		}
		rows = append(rows, row.cells(result.Resource, percent(result.Sharing.SharedBytes, result.Sharing.Bytes)))
	}
	if len(r.Resources) > 1 {
		rows = append(rows, r.Total.cells("total", ""))
	}
	align(b, rows)
}

func header(trimmed bool) []string {
	cells := []string{"RESOURCE", "OBJECTS", "WIRE", "CLIENT-GO", "TIDINGS", "RATIO"}
	if trimmed {
		cells = append(cells, "TRIMMED:", "CLIENT-GO", "TIDINGS", "RATIO")
	}
	return append(cells, "SHARED", "HEAP OBJECTS EACH", "SYNC")
}

// cells are the row of a resource or of all together.
func (t Total) cells(name, shared string) []string {
	mark := ""
	if t.Extrapolated {
		mark = "~"
	}
	cells := []string{
		name, strconv.FormatInt(t.Objects, 10), size(uint64(t.WireBytes)),
		mark + size(t.ClientGo.CacheBytes), mark + size(t.Tidings.CacheBytes), times(t.Ratio),
	}
	if t.TidingsTrimmed != nil {
		before, after := t.ClientGoTrimmed.CacheBytes, t.TidingsTrimmed.CacheBytes
		cells = append(cells, "", mark+size(before), mark+size(after), times(ratio(after, before)))
	}
	each := func(w Weight) string { return fmt.Sprintf("%.1f", ratio(float64(w.CacheObjects), float64(t.Objects))) }
	return append(cells, shared, each(t.ClientGo)+" → "+each(t.Tidings), seconds(t.ClientGo.SyncSeconds)+" → "+seconds(t.Tidings.SyncSeconds))
}

// align writes rows of equally many cells: the first column to the left, all others to the right.
func align(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		for i, cell := range row {
			if i == 0 {
				b.WriteString(cell + pad(widths[i], cell))
				continue
			}
			b.WriteString("  " + pad(widths[i], cell) + cell)
		}
		b.WriteByte('\n')
	}
}

func pad(width int, cell string) string {
	return strings.Repeat(" ", width-utf8.RuneCountInString(cell))
}

// sentence answers the question that the command was asked.
func (r Report) sentence() string {
	t := r.Total
	s := fmt.Sprintf("A client-go cache of these %d objects holds about %s, Tidings about %s (%s).",
		t.Objects, size(t.ClientGo.CacheBytes), size(t.Tidings.CacheBytes), times(t.Ratio))
	if t.TidingsTrimmed != nil {
		before, after := t.ClientGoTrimmed.CacheBytes, t.TidingsTrimmed.CacheBytes
		s += fmt.Sprintf("\nWithout managedFields it is about %s and %s (%s).", size(before), size(after), times(ratio(after, before)))
	}
	return s
}

// notes say which figures are measured and which are not.
func (r Report) notes() string {
	s := "Memory is measured: the live heap after decoding the same bytes, and putting the objects into a store.\n" +
		"SYNC is estimated: reading the list once, and decoding it. Handlers, queues and buffers come on top of both.\n"
	if r.Total.Extrapolated {
		s += "~ is extrapolated from the first objects of the list; the more objects, the more Tidings shares.\n"
	}
	if r.Total.Ratio > 1 {
		s += "There are too few objects to save anything: nearly all of what Tidings holds is the decoders' fixed part, some ten kB for each resource.\n"
	}
	return s
}

// fields writes the table of the fields that share most.
func (r Result) fields(b *strings.Builder, most int) {
	if len(r.Sharing.Fields) == 0 {
		return
	}
	rows := [][]string{{r.Resource + " BY FIELD", "LOOKED UP", "FOUND", "BYTES", "SHARED"}}
	for _, f := range r.Sharing.Fields[:min(most, len(r.Sharing.Fields))] {
		rows = append(rows, []string{
			cli.Printable(f.Field), strconv.FormatUint(f.Lookups, 10), percent(f.Hits, f.Lookups), size(f.Bytes), size(f.SharedBytes),
		})
	}
	b.WriteByte('\n')
	align(b, rows)
}

// size writes bytes with three digits or a little more: 512 B, 4.2 kB, 110.5 MB.
func size(bytes uint64) string {
	if bytes < 1000 {
		return fmt.Sprintf("%d B", bytes)
	}
	n, unit := float64(bytes)/1000, 0
	for n >= 999.95 && unit < len("kMGTPE")-1 {
		n, unit = n/1000, unit+1
	}
	return fmt.Sprintf("%.1f %cB", n, "kMGTPE"[unit])
}

func times(ratio float64) string {
	if ratio == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f×", ratio)
}

func percent(part, whole uint64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*ratio(part, whole))
}

func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d < time.Second {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}
