package resources

import (
	"cmp"
	"slices"
	"strings"
)

// suggestions is the maximum number of names in a "did you mean".
const suggestions = 3

// similar returns the names of resources similar to the given one, the nearest first.
func (c *Catalog) similar(name string) []string {
	name, group, hasGroup := strings.Cut(name, ".")
	limit := max(1, len(name)/3)
	distances := map[string]int{}
	for _, r := range c.resources {
		if !r.Watchable() {
			continue
		}
		for _, known := range append([]string{r.Resource, r.singular, strings.ToLower(r.Kind)}, r.shortNames...) {
			d := distance(name, known)
			if known == "" || d > limit || d >= len(known) {
				continue
			}
			if hasGroup && !strings.HasPrefix(r.Group, group) {
				d++ // of two equals, prefer the one in the requested group
			}
			if best, seen := distances[r.Name()]; !seen || d < best {
				distances[r.Name()] = d
			}
		}
	}
	names := make([]string, 0, len(distances))
	for known := range distances {
		names = append(names, known)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(distances[a], distances[b]), cmp.Compare(a, b))
	})
	return names[:min(len(names), suggestions)]
}

// distance counts the letters to insert, delete, replace or swap with their neighbor to turn a into b (optimal
// string alignment).
func distance(a, b string) int {
	older, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], older[j-1]+1)
			}
		}
		older, last, row = last, row, older
	}
	return last[len(b)]
}
