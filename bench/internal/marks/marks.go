// Package marks writes generated parts into pages that people write.
package marks

import (
	"fmt"
	"os"
	"strings"
)

// Replace writes each part between the lines "<!-- name -->" and "<!-- /name -->" of the page, by its name. A page without these is
// an error, and stays as it is.
func Replace(path string, parts map[string]string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page := string(data)
	for name, part := range parts {
		begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
		before, rest, found := strings.Cut(page, begin)
		_, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			return fmt.Errorf("%s has no place for %s: the lines %q and %q", path, name, strings.TrimSpace(begin), end)
		}
		page = before + begin + "\n" + strings.TrimSpace(part) + "\n\n" + end + after
	}
	return os.WriteFile(path, []byte(page), 0o644)
}
