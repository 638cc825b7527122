package measure

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
)

// Text formats the report for people: a table, its totals, and for each resource the given number of fields that share
// the most. Its lines have at most width characters; 0 means any width.
func (r Report) Text(fields, width int) string {
	var b strings.Builder
	if len(r.Resources) > 0 {
		left := r.table(&b, width)
		b.WriteString("\n" + wrap(r.summary(), width) + "\n")
		b.WriteString(wrap(r.notes(left), width))
		r.folded(&b, width)
	}
	if fields > 0 {
		for _, result := range r.Resources {
			result.fields(&b, fields, width)
		}
	}
	if len(r.Failures) > 0 {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("Not measured:\n")
		b.WriteString(r.failures(width))
	}
	return b.String()
}

// manyForbidden is from how many resources on that may not be listed the reason is given once.
const manyForbidden = 4

// failures says why resources could not be measured: each, or once for all if the user may list none of them.
func (r Report) failures(width int) string {
	var b strings.Builder
	var names []string
	for _, f := range r.Failures {
		if f.Forbidden {
			names = append(names, cli.Printable(f.Resource))
		}
	}
	together := len(names) >= manyForbidden
	for _, f := range r.Failures {
		if !f.Forbidden || !together {
			fmt.Fprintf(&b, "  %s: %s\n", cli.Printable(f.Resource), cli.Printable(f.Message))
		}
	}
	if !together {
		return b.String()
	}
	text := "You may not list " + strings.Join(names, ", ")
	if r.everywhere {
		text += " in all namespaces. If you may in one of them, name it: tidings measure -n NAMESPACE"
	} else {
		text += " in these namespaces; ask for the verb list on them, or name the resources that you may list"
	}
	return b.String() + wrap(text+".", width) + "\n"
}

// table writes a row for each resource, and returns the names of the columns for which there was no room.
func (r Report) table(b *strings.Builder, width int) (left []string) {
	trimmed := r.Total.TidingsTrimmed != nil
	rows := [][]string{header(trimmed)}
	for _, result := range r.Resources {
		var row Total
		row.add(result)
		rows = append(rows, row.cells(cli.Printable(result.Resource), percent(result.Sharing.SharedBytes, result.Sharing.Bytes)))
	}
	if len(r.Resources) > 1 {
		rows = append(rows, r.Total.cells("total", ""))
	}
	rows, left = fit(rows, width, "SYNC", "HEAP OBJECTS EACH", "SHARED", "WIRE", "OBJECTS", "ALL OPEN")
	align(b, rows)
	return left
}

func header(trimmed bool) []string {
	cells := []string{"RESOURCE", "OBJECTS", "WIRE", "CLIENT-GO", "TIDINGS", "RATIO", "ALL OPEN"}
	if trimmed {
		cells = append(cells, "TRIMMED:", "CLIENT-GO", "ALL OPEN", "RATIO")
	}
	return append(cells, "SHARED", "HEAP OBJECTS EACH", "SYNC")
}

// cells returns the row of a resource, or of the total.
func (t *Total) cells(name, shared string) []string {
	mark := ""
	if t.Extrapolated {
		mark = "~"
	}
	cells := []string{
		name, strconv.FormatInt(t.Objects, 10), size(uint64(t.WireBytes)),
		mark + size(t.ClientGo.CacheBytes), mark + size(t.UnreadBytes), times(t.UnreadRatio),
		mark + size(t.Tidings.CacheBytes),
	}
	if t.TidingsTrimmed != nil {
		before, after := *t.ClientGoTrimmed, *t.TidingsTrimmed
		cells = append(cells, "", mark+size(before.CacheBytes), mark+size(after.CacheBytes), times(t.compare(after, before)))
	}
	each := func(w Weight) string { return fmt.Sprintf("%.1f", ratio(float64(w.CacheObjects), float64(t.Objects))) }
	return append(cells, shared, each(t.ClientGo)+" → "+each(t.Tidings), seconds(t.ClientGo.SyncSeconds)+" → "+seconds(t.Tidings.SyncSeconds))
}

// folded writes the table of what folded objects take, and a sentence about it.
func (r Report) folded(b *strings.Builder, width int) {
	if r.Total.Folded == nil {
		return
	}
	rows := [][]string{{"FOLDED", "HEAP", "OF CLIENT-GO", "PACKED TO", "OPENING ONE", "STAY OPEN", "SMALLEST BUDGET"}}
	for _, result := range r.Resources {
		if result.Folded != nil {
			rows = append(rows, result.Folded.cells(cli.Printable(result.Resource), result.Extrapolated, result.ClientGo))
		}
	}
	if len(rows) > 2 {
		rows = append(rows, r.Total.Folded.cells("total", r.Total.Extrapolated, r.Total.ClientGo))
	}
	b.WriteByte('\n')
	rows, _ = fit(rows, width, "STAY OPEN", "PACKED TO", "OPENING ONE", "OF CLIENT-GO")
	align(b, rows)
	b.WriteString("\n" + wrap(r.Total.Folded.summary(), width) + "\n")
}

func (f Folded) cells(name string, extrapolated bool, clientGo Weight) []string {
	mark := ""
	if extrapolated {
		mark = "~"
	}
	return []string{
		name, mark + size(f.HeapBytes), times(ratio(f.HeapBytes, clientGo.CacheBytes)), percent(f.PackedBytes, f.EncodedBytes),
		seconds(f.OpenSeconds), strconv.FormatInt(f.Unfoldable, 10), mark + size(f.Budget),
	}
}

// fields writes the table of the fields that share the most.
func (r Result) fields(b *strings.Builder, most, width int) {
	if len(r.Sharing.Fields) == 0 {
		return
	}
	rows := [][]string{{cli.Printable(r.Resource) + " BY FIELD", "LOOKED UP", "FOUND", "BYTES", "SHARED"}}
	for _, f := range r.Sharing.Fields[:min(most, len(r.Sharing.Fields))] {
		rows = append(rows, []string{
			cli.Printable(f.Field), strconv.FormatUint(f.Lookups, 10), percent(f.Hits, f.Lookups), size(f.Bytes), size(f.SharedBytes),
		})
	}
	b.WriteByte('\n')
	rows, _ = fit(rows, width, "LOOKED UP", "FOUND")
	align(b, rows)
}

// size formats bytes with about three digits: 512 B, 4.2 kB, 110.5 MB.
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
	if d < time.Millisecond {
		return d.Round(100 * time.Nanosecond).String()
	}
	if d < time.Second {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}
