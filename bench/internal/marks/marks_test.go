package marks

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	const page = "# A\n\n<!-- x -->\nold\n<!-- /x -->\n\ntext\n"
	if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // again changes nothing
		if err := Replace(path, map[string]string{"x": "| new |\n"}); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if want := "# A\n\n<!-- x -->\n\n| new |\n\n<!-- /x -->\n\ntext\n"; err != nil || string(got) != want {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if err := Replace(path, map[string]string{"y": ""}); err == nil {
		t.Error("a page without the marks was written to")
	}
}

// TestFind finds what Replace or Around have written.
func TestFind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	for page, want := range map[string]string{
		"":                                   "",
		"a\n" + Around("x", " one\n\ntwo\n"): "one\n\ntwo",
		Around("y", "other"):                 "",
		"<!-- x -->\nno end":                 "",
	} {
		if got, err := Find(path, "x"); page == "" && (got != "" || err != nil) {
			t.Errorf("without a page: %q, %v", got, err)
		}
		if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Find(path, "x"); got != want || err != nil {
			t.Errorf("%q: got %q, %v, want %q", page, got, err, want)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
