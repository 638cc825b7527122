package suites

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// workspace is a temporary folder in which a suite's tests are built.
type workspace struct{ folder string }

func newWorkspace() (*workspace, error) {
	folder, err := os.MkdirTemp("", "suites-")
	return &workspace{folder}, err
}

// remove removes the folder.
func (w *workspace) remove() { _ = os.RemoveAll(w.folder) }

// path returns a path in the workspace.
func (w *workspace) path(elements ...string) string {
	return filepath.Join(append([]string{w.folder}, elements...)...)
}

// write writes a file in the workspace, creating its folder.
func (w *workspace) write(text string, elements ...string) error {
	path := w.path(elements...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// copyFile copies a file into the workspace, creating its folder.
func (w *workspace) copyFile(from string, elements ...string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return w.write(string(text), elements...)
}

// copyFolder copies a folder with all below it into the workspace. Files that are not regular are left out.
func (w *workspace) copyFolder(from string, elements ...string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		return w.copyFile(path, append(elements, below)...)
	})
}

// writeSums writes a go.sum that has the lines of all the given ones.
func (w *workspace) writeSums(to []string, from ...string) error {
	var all strings.Builder
	for _, path := range from {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "%s\n", strings.TrimSpace(string(text)))
	}
	return w.write(all.String(), to...)
}

// moduleFolder returns the folder of a module in the module cache, downloading it if necessary.
// Without a version it is the one that the module in folder uses.
func moduleFolder(ctx context.Context, folder, module, version string) (string, error) {
	if version == "" {
		if _, err := goCommand(ctx, folder, "mod", "download", module); err != nil {
			return "", err
		}
		out, err := goCommand(ctx, folder, "list", "-m", "-f", "{{.Dir}}", module)
		return strings.TrimSpace(string(out)), err
	}
	out, err := goCommand(ctx, folder, "mod", "download", "-json", module+"@"+version)
	if err != nil {
		return "", err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return "", fmt.Errorf("download %s@%s: %w", module, version, err)
	}
	return downloaded.Dir, nil
}
