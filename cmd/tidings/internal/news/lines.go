package news

import "slices"

// hunk is a run of lines that differs between two texts. oldAt and newAt are the numbers of lines before it.
type hunk struct {
	oldAt, newAt int
	old, new     []string
}

// maxCells limits the table for comparing the lines of two texts; longer runs of different lines become one hunk.
const maxCells = 1 << 20

// compareLines returns where two texts differ. Replacing the old lines with the new ones, hunk by
// hunk, turns the first text into the second.
func compareLines(before, after []string) []hunk {
	start := 0
	for start < min(len(before), len(after)) && before[start] == after[start] {
		start++
	}
	endB, endA := len(before), len(after)
	for endB > start && endA > start && before[endB-1] == after[endA-1] {
		endB, endA = endB-1, endA-1
	}
	b, a := before[start:endB], after[start:endA]
	if len(b) == 0 && len(a) == 0 {
		return nil
	}
	if len(b)*len(a) > maxCells {
		return []hunk{{start, start, b, a}}
	}
	hunks := alignLines(b, a)
	for i := range hunks {
		hunks[i].oldAt += start
		hunks[i].newAt += start
	}
	return hunks
}

// alignLines compares by the longest common subsequence.
func alignLines(before, after []string) []hunk {
	common := commonLines(before, after)
	var hunks []hunk
	b, a := 0, 0
	for b < len(before) || a < len(after) {
		h := hunk{oldAt: b, newAt: a}
		for b < len(before) && a < len(after) && before[b] == after[a] {
			b, a = b+1, a+1
			h.oldAt, h.newAt = b, a
		}
		for (b < len(before) || a < len(after)) && !(b < len(before) && a < len(after) && before[b] == after[a]) {
			if a == len(after) || b < len(before) && common[b+1][a] >= common[b][a+1] {
				b++
			} else {
				a++
			}
		}
		h.old, h.new = before[h.oldAt:b], after[h.newAt:a]
		if len(h.old)+len(h.new) > 0 {
			hunks = append(hunks, h)
		}
	}
	return slices.Clip(hunks)
}

// commonLines returns, for each pair of positions, the length of the longest common subsequence of
// the lines after them.
func commonLines(before, after []string) [][]int32 {
	width := len(after) + 1
	cells := make([]int32, (len(before)+1)*width)
	table := make([][]int32, len(before)+1)
	for b := range table {
		table[b] = cells[b*width : (b+1)*width]
	}
	for b := len(before) - 1; b >= 0; b-- {
		for a := len(after) - 1; a >= 0; a-- {
			if before[b] == after[a] {
				table[b][a] = table[b+1][a+1] + 1
			} else {
				table[b][a] = max(table[b+1][a], table[b][a+1])
			}
		}
	}
	return table
}
