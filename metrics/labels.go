package metrics

import (
	"fmt"
	"strings"
)

// labelSets holds the values of labels that are in use.
type labelSets map[string]bool

// distinct returns the values as labels. Those in use are numbered: a metric that appears twice
// makes Prometheus reject all metrics of the process, and queues need no names, and informers may
// be indistinguishable, such as one whose namespaces were changed and another one that took its
// place.
func (s labelSets) distinct(values ...string) []string {
	for i := range values {
		values[i] = label(values[i])
	}
	last := &values[len(values)-1]
	name := *last
	for n := 2; s[key(values)]; n++ {
		*last = fmt.Sprintf("%s (%d)", name, n)
	}
	s[key(values)] = true
	return values
}

// key joins labels with a byte that none of them has.
func key(labels []string) string { return strings.Join(labels, "\xff") }

// label returns a text that can be the value of a label: Prometheus rejects all metrics if one has
// bytes that are not UTF-8, such as those of a name that was cut off inside a character.
func label(value string) string { return strings.ToValidUTF8(value, "\ufffd") }
