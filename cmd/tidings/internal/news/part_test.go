package news

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidings/tidings/cmd/tidings/internal/diff"
	"github.com/tidings/tidings/internal/testseed"
)

func changed(before, after any) Event {
	return Event{Time: noon, Type: Modified, Resource: pods, Name: "web", Changes: []diff.Change{{Path: diff.Path{{Field: "data"}}, Op: diff.Changed, Old: before, New: after}}}
}

// TestLongValuesShowWhereTheyDiffer: two values with equal beginnings must not look equal when truncated.
func TestLongValuesShowWhereTheyDiffer(t *testing.T) {
	long := strings.Repeat("x", 300)
	lines := func(change string) string {
		return strings.Repeat("a line\n", 40) + change + strings.Repeat("another line\n", 40)
	}
	tests := map[string]struct {
		before, after any
		text          string
	}{
		"behind the cut": {long + "1", long + "2", `    ~ data: …"xxxxxxxxxxxxxxxxxxxx1" → …"xxxxxxxxxxxxxxxxxxxx2" (from byte 280 of 301)`},
		"in the middle": {long + "1" + long, long + "2" + long,
			`    ~ data: …"xxxxxxxxxxxxxxxxxxxx1` + strings.Repeat("x", 79) + `"… → …"xxxxxxxxxxxxxxxxxxxx2` + strings.Repeat("x", 79) + `"… (from byte 280 of 601)`},
		"longer":           {long, long + "y", `    ~ data: …"xxxxxxxxxxxxxxxxxxxx" → …"xxxxxxxxxxxxxxxxxxxxy" (from byte 280 of 301)`},
		"another kind":     {[]any{long, int64(1)}, []any{long, int64(2)}, `    ~ data: …xxxxxxxxxxxxxxxxxx",1] → …xxxxxxxxxxxxxxxxxx",2] (from byte 284 of 306)`},
		"a line":           {lines("old\n"), lines("new\n"), "    ~ data: text of 804 bytes changed in 1 place\n        41 - old\n        41 + new"},
		"a line that came": {lines(""), lines("new\n"), "    ~ data: text of 804 bytes changed in 1 place\n        41 + new"},
		"a line that went": {lines("\n"), lines(""), "    ~ data: text of 800 bytes changed in 1 place\n        41 - "},
		"two places": {"first\n" + lines("old\n"), "1st\n" + lines("new\nnewer\n"),
			"    ~ data: text of 814 bytes changed in 2 places\n        1 - first\n        1 + 1st\n        42 - old\n        42 + new\n        43 + newer"},
		"a long line": {"a\n" + long + "1\nb", "a\n" + long + "2\nb",
			"    ~ data: text of 305 bytes changed in 1 place\n        2 - …xxxxxxxxxxxxxxxxxxxx1\n        2 + …xxxxxxxxxxxxxxxxxxxx2"},
	}
	for name, test := range tests {
		got := string(Text{Limits: Limits{Changes: 30, Value: 100}}.Event(changed(test.before, test.after)))
		if _, got, _ = strings.Cut(got, "\n"); got != test.text+"\n" {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, test.text)
		}
	}
	order := changed([]any{long, "1"}, []any{long, "2"})
	order.Changes[0].Op = diff.Reordered
	if got := string(Text{Limits: Limits{Value: 100}}.Event(order)); !strings.Contains(got, `data: order …x`) || !strings.Contains(got, `1"] → `) {
		t.Errorf("order: %s", got)
	}
}

// TestPartsInJSON: they say the same, and their number is limited.
func TestPartsInJSON(t *testing.T) {
	var before, after []string
	for i := range 100 {
		before, after = append(before, fmt.Sprint("line ", i), "same"), append(after, fmt.Sprint("LINE ", i), "same")
	}
	var line struct {
		Changes []struct {
			Parts []struct {
				OldLine, NewLine, Offset int
				OldText, NewText         string
			}
			OmittedParts int
		}
	}
	text := JSON{Limits: Limits{Changes: 3, Value: 100}}.Event(changed(strings.Join(before, "\n"), strings.Join(after, "\n")))
	if err := json.Unmarshal(text, &line); err != nil {
		t.Fatal(err)
	}
	c := line.Changes[0]
	if len(c.Parts) != 3 || c.OmittedParts != 97 {
		t.Fatalf("%d parts, %d omitted", len(c.Parts), c.OmittedParts)
	}
	if p := c.Parts[2]; p.OldLine != 5 || p.NewLine != 5 || p.OldText != "line 2\n" || p.NewText != "LINE 2\n" {
		t.Errorf("%+v", p)
	}
}

// TestPartsNeverLookEqual cuts random pairs of texts at random limits.
func TestPartsNeverLookEqual(t *testing.T) {
	r := testseed.Rand(t)
	for range 20_000 {
		before, after := randomText(r), randomText(r)
		if r.IntN(2) == 0 {
			after = change(r, before)
		}
		if before == after {
			continue
		}
		limit := 1 + r.IntN(20)
		parts := partsOf(changed(before, after).Changes[0], limit)
		shownBefore, _ := shorten(string(encode(before)), limit)
		shownAfter, _ := shorten(string(encode(after)), limit)
		if len(parts) == 0 && shownBefore == shownAfter {
			t.Fatalf("no part of %q and %q at %d", before, after, limit)
		}
		for _, p := range parts {
			if p.old == p.new || !utf8.ValidString(p.old+p.new) || len(p.old) > limit+context+8 || len(p.new) > limit+context+8 {
				t.Fatalf("%q and %q at %d: %+v", before, after, limit, p)
			}
			if p.newLine == 0 && (!strings.HasPrefix(before[p.offset:], p.old) || !strings.HasPrefix(after[p.offset:], p.new)) {
				t.Fatalf("%q and %q at %d: not what is there: %+v", before, after, limit, p)
			}
		}
	}
}

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(40) {
		b.WriteString([]string{"a", "b", "é", "世", "🙂", "\n"}[r.IntN(6)])
	}
	return b.String()
}

// change replaces one character.
func change(r *rand.Rand, text string) string {
	runes := []rune(text)
	if len(runes) == 0 {
		return "x"
	}
	runes[r.IntN(len(runes))] = []rune("xê丗🙃\n")[r.IntN(5)]
	return string(runes)
}

// TestLinesAddUp replaces the old lines with the new ones, and counts what is left of the old ones.
func TestLinesAddUp(t *testing.T) {
	r := testseed.Rand(t)
	for range 5000 {
		before, after := strings.Split(randomText(r), ""), strings.Split(randomText(r), "")
		hunks := compareLines(before, after)
		var got []string
		from := 0
		for i, h := range hunks {
			got = append(append(got, before[from:h.oldAt]...), h.new...)
			from = h.oldAt + len(h.old)
			if !slices.Equal(before[h.oldAt:from], h.old) || !slices.Equal(after[h.newAt:h.newAt+len(h.new)], h.new) {
				t.Fatalf("%q to %q: hunk %d is %+v", before, after, i, h)
			}
		}
		if got = append(got, before[from:]...); !slices.Equal(got, after) {
			t.Fatalf("%q to %q: hunks %+v make %q", before, after, hunks, got)
		}
		if changed, want := size(hunks), leastChange(before, after); changed != want {
			t.Fatalf("%q to %q: %d lines changed in %+v, want %d", before, after, changed, hunks, want)
		}
	}
}

func size(hunks []hunk) (n int) {
	for _, h := range hunks {
		n += len(h.old) + len(h.new)
	}
	return n
}

// leastChange returns the minimum number of lines to remove and add, computed row by row.
func leastChange(before, after []string) int {
	row := make([]int, len(after)+1)
	for i := range row {
		row[i] = i
	}
	for _, b := range before {
		last := slices.Clone(row)
		row[0]++
		for j, a := range after {
			row[j+1] = 1 + min(row[j], last[j+1])
			if a == b {
				row[j+1] = last[j]
			}
		}
	}
	return row[len(after)]
}

// TestHugeTextsAreCompared without a table of their lines.
func TestHugeTextsAreCompared(t *testing.T) {
	var before, after []string
	for i := range 5000 {
		before, after = append(before, fmt.Sprint("old ", i)), append(after, fmt.Sprint("new ", i))
	}
	if hunks := compareLines(before, after); len(hunks) != 1 || len(hunks[0].old) != 5000 {
		t.Errorf("%d hunks", len(hunks))
	}
}

// TestShortTexts: of texts of several lines, however short, the lines that differ are shown.
func TestShortTexts(t *testing.T) {
	c := diff.Change{Op: diff.Changed, Path: diff.Path{{Field: "data"}}, Old: "a = 1\nb = 2\nc = 3\n",
		New: "a = 1\nb = 5\nc = 3\nd = 4\n"}
	want := "    ~ data: text of 24 bytes changed in 2 places\n        2 - b = 2\n        2 + b = 5\n        4 + d = 4\n"
	for _, limit := range []int{0, 200} {
		var b strings.Builder
		Text{Limits: Limits{Value: limit}}.change(&b, c, false)
		if b.String() != want {
			t.Errorf("with limit %d:\n%s", limit, &b)
		}
	}
}
