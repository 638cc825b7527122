// Package marks writes generated parts into hand-written pages.
package marks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// begin and end return the lines around a part.
func begin(name string) string { return "<!-- " + name + " -->\n" }
func end(name string) string   { return "<!-- /" + name + " -->" }

// Around returns a part with its marks, as it appears in a page.
func Around(name, part string) string {
	return begin(name) + "\n" + strings.TrimSpace(part) + "\n\n" + end(name)
}

// Find returns a part of the page, or "" if there is no such page or part.
func Find(path, name string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	_, rest, found := strings.Cut(string(data), begin(name))
	part, _, closed := strings.Cut(rest, end(name))
	if !found || !closed {
		return "", nil
	}
	return strings.TrimSpace(part), nil
}

// Replace replaces each part between the lines "<!-- name -->" and "<!-- /name -->" of the page. If
// the marks of a part are missing, it returns an error and leaves the page unchanged.
func Replace(path string, parts map[string]string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page := string(data)
	for name, part := range parts {
		before, rest, found := strings.Cut(page, begin(name))
		_, after, closed := strings.Cut(rest, end(name))
		if !found || !closed {
			return fmt.Errorf("%s has no place for %s: the lines %q and %q", path, name, strings.TrimSpace(begin(name)), end(name))
		}
		page = before + Around(name, part) + after
	}
	return os.WriteFile(path, []byte(page), 0o644)
}
