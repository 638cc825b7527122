package tidings_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestTranslation keeps the Chinese pages in step with the English ones: sections, code except for comments, links, and
// words in the text that are formatted as code.
func TestTranslation(t *testing.T) {
	for _, folder := range []string{".", "examples"} {
		t.Run(folder, func(t *testing.T) { testTranslation(t, folder) })
	}
}

func testTranslation(t *testing.T, folder string) {
	original := readPage(t, filepath.Join(folder, "README.md"))
	translation := readPage(t, filepath.Join(folder, "README.zh-CN.md"))
	for what, parts := range map[string]func(page) []string{
		"sections": page.sections, "code": page.code, "links": page.links, "pictures": page.pictures, "names in the text": page.quoted,
	} {
		want, got := parts(original), parts(translation)
		for i := range max(len(want), len(got)) {
			if i >= len(want) || i >= len(got) || want[i] != got[i] {
				t.Errorf("%s differ at number %d:\nREADME.md       %q\nREADME.zh-CN.md %q", what, i+1, at(want, i), at(got, i))
				break
			}
		}
	}
	for _, target := range original.links() {
		if err := checkLink(folder, target); err != nil {
			t.Errorf("a link leads nowhere: %v", err)
		}
	}
	if folder != "." {
		return
	}
	if len(original.sections()) < 5 || len(original.code()) < 5 || len(original.links()) < 5 || len(original.quoted()) < 5 {
		t.Error("README.md was not read as it should be")
	}
}

// checkLink returns an error unless a link leads to a file, or to a heading of a page.
func checkLink(folder, target string) error {
	file, anchor, _ := strings.Cut(target, "#")
	file = filepath.Join(folder, file)
	if strings.Contains(target, "://") {
		return nil
	}
	text, err := os.ReadFile(file)
	if info, e := os.Stat(file); e == nil && info.IsDir() && anchor == "" {
		return nil
	}
	if err != nil || anchor == "" {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if title := strings.TrimLeft(line, "#"); title != line && anchorOf(title) == anchor {
			return nil
		}
	}
	return fmt.Errorf("%s has no heading for #%s", file, anchor)
}

// anchorOf returns the anchor that a heading has on a page.
func anchorOf(title string) string {
	title = strings.ToLower(strings.TrimSpace(title))
	keep := func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsNumber(r), r == '-', r == '_':
			return r
		case r == ' ':
			return '-'
		}
		return -1
	}
	return strings.Map(keep, title)
}

// page is a page in Markdown, as code blocks and the text around them.
type page struct {
	blocks []string
	text   string
}

func readPage(t *testing.T, file string) (p page) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, part := range strings.Split("\n"+string(text), "\n```") {
		if i%2 == 1 {
			p.blocks = append(p.blocks, part)
		} else {
			p.text += part
		}
	}
	return p
}

var (
	heading = regexp.MustCompile(`(?m)^#+ `)
	comment = regexp.MustCompile(`(?m)\s+(//|#) .*$`)
	link    = regexp.MustCompile(`\]\(([^)]+)\)`)
	picture = regexp.MustCompile(`src(?:set)?="([^"]+)"`)
	quote   = regexp.MustCompile("`([^`]+)`")
)

// sections are the levels of the headings: the words are in another language.
func (p page) sections() []string {
	return heading.FindAllString(p.text, -1)
}

// code is every code block without comments.
func (p page) code() (blocks []string) {
	for _, block := range p.blocks {
		blocks = append(blocks, comment.ReplaceAllString(block, ""))
	}
	return blocks
}

// links are the targets of links, in order, except for those between the two pages and within one.
// Both pages may lead to a page in their own language.
func (p page) links() (targets []string) {
	for _, m := range link.FindAllStringSubmatch(p.text, -1) {
		if strings.HasPrefix(m[1], "README") || strings.HasPrefix(m[1], "#") {
			continue
		}
		targets = append(targets, strings.Replace(m[1], "README.zh-CN.md", "README.md", 1))
	}
	return targets
}

// pictures are the files of the pictures, for light and dark pages.
func (p page) pictures() (files []string) {
	for _, m := range picture.FindAllStringSubmatch(p.text, -1) {
		files = append(files, m[1])
	}
	return files
}

// quoted are the words in the text that are formatted as code, sorted, since word order differs between languages.
func (p page) quoted() (words []string) {
	for _, m := range quote.FindAllStringSubmatch(p.text, -1) {
		words = append(words, m[1])
	}
	slices.Sort(words)
	return words
}

func at(parts []string, i int) string {
	if i < len(parts) {
		return parts[i]
	}
	return "(nothing)"
}
