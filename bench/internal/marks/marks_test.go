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
