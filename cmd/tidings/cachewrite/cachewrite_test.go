package cachewrite_test

import (
	"slices"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/tidings/tidings/cmd/tidings/cachewrite"
)

// TestCorpus runs the analyzer on written programs, whose comments say what it has to find: each line without one has to
// be free of findings.
func TestCorpus(t *testing.T) {
	analysistest.Run(withoutFacts{t}, analysistest.TestData(), cachewrite.Analyzer, "example.com/corpus/...")
}

// withoutFacts ignores the facts about functions, which findings in their callers show.
type withoutFacts struct{ *testing.T }

func (t withoutFacts) Errorf(format string, args ...any) {
	if !slices.Contains(args, any("fact")) {
		t.T.Errorf(format, args...)
	}
}
