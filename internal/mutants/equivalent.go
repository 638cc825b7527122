package main

import (
	_ "embed"
	"fmt"
	"strings"
)

// equivalentText has one line for each mutant without an effect that a test could observe, in the
// format of reports, with the reason above it. A line with the name of a file, or of a file and a
// function in it, applies to all mutants in there.
//
//go:embed equivalent.txt
var equivalentText string

func readEquivalent() (map[string]bool, error) {
	known, reasoned := map[string]bool{}, false
	for i, line := range strings.Split(equivalentText, "\n") {
		switch line = strings.TrimSpace(line); {
		case line == "":
			reasoned = false
		case strings.HasPrefix(line, "#"):
			reasoned = true
		case !reasoned:
			return nil, fmt.Errorf("equivalent.txt:%d: the mutant has no reason above it", i+1)
		default:
			known[line] = true
		}
	}
	return known, nil
}

// isEquivalent reports whether a mutant is known to change nothing.
func isEquivalent(known map[string]bool, m *mutant) bool {
	return known[strings.TrimSpace(m.String())] || known[m.name] || known[m.inFunction()]
}

// inFunction names the function that contains the mutant.
func (m *mutant) inFunction() string { return m.name + ": func " + m.function }
