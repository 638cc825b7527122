// Package workspace copies modules from the module cache into a temporary folder, and replaces their imports of
// client-go with those of this project.
package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Workspace is a temporary folder in which copied modules are built.
type Workspace struct{ Folder string }

// New makes a workspace. The caller removes it.
func New() (*Workspace, error) {
	folder, err := os.MkdirTemp("", "upstream-")
	return &Workspace{folder}, err
}

// Remove removes the folder.
func (w *Workspace) Remove() { _ = os.RemoveAll(w.Folder) }

// Path returns a path in the workspace.
func (w *Workspace) Path(elements ...string) string {
	return filepath.Join(append([]string{w.Folder}, elements...)...)
}

// Write writes a file in the workspace, creating its folder.
func (w *Workspace) Write(text string, elements ...string) error {
	path := w.Path(elements...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// CopyFile copies a file into the workspace, creating its folder.
func (w *Workspace) CopyFile(from string, elements ...string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return w.Write(string(text), elements...)
}

// CopyFolder copies a folder with all below it into the workspace. Files that are not regular are left out.
func (w *Workspace) CopyFolder(from string, elements ...string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		return w.CopyFile(path, append(elements, below)...)
	})
}

// WriteSums writes a go.sum that has the lines of all the given ones.
func (w *Workspace) WriteSums(to []string, from ...string) error {
	var all strings.Builder
	for _, path := range from {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "%s\n", strings.TrimSpace(string(text)))
	}
	return w.Write(all.String(), to...)
}

// ModuleFolder returns the folder of a module in the module cache, downloading it if necessary.
// Without a version it is the one that the module in folder uses.
func ModuleFolder(ctx context.Context, folder, module, version string) (string, error) {
	if version == "" {
		if _, err := GoCommand(ctx, folder, "mod", "download", module); err != nil {
			return "", err
		}
		out, err := GoCommand(ctx, folder, "list", "-m", "-f", "{{.Dir}}", module)
		return strings.TrimSpace(string(out)), err
	}
	out, err := GoCommand(ctx, folder, "mod", "download", "-json", module+"@"+version)
	if err != nil {
		return "", err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return "", fmt.Errorf("download %s@%s: %w", module, version, err)
	}
	return downloaded.Dir, nil
}

// GoCommand runs the go command in a folder and returns its standard output. The error has what it
// wrote to standard error.
func GoCommand(ctx context.Context, folder string, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stderr, cmd.Env = folder, &stderr, append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("go %s: %w", strings.Join(args, " "), err), errors.New(strings.TrimSpace(stderr.String())))
	}
	return out, nil
}
