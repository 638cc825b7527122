package main

import (
	_ "embed"
	"fmt"
	"strings"
)

// equivalentText has a line for each mutant that changes nothing that a test could see, as reports show it, and above it why.
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
