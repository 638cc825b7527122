package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPage: what docs/operators.md shows is code of this folder.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/operators.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 5 {
		t.Errorf("the page has %d pieces of code", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(code.String(), block[1]) {
			t.Errorf("this is not code of the example:\n%s", block[1])
		}
	}
}
