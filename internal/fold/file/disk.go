package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// abandonedAfter is the age from which a temporary file belongs to no living process.
const abandonedAfter = time.Hour

// WriteFile writes a file at path; write is called to write its records. An existing file is
// replaced once everything is written, and left alone on error; the error wraps that of write, if
// it failed. The directory must exist. If several processes write the same file, the last one wins.
func WriteFile(path string, header Header, opts Options, write func(*Writer) error) error {
	removeAbandoned(path)
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*"+tempSuffix) // mode 0600
	if err != nil {
		return err
	}
	written := false
	defer func() {
		if !written { // also if write panics
			f.Close()
			os.Remove(f.Name())
		}
	}()
	err = writeAll(f, header, opts, write)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	written = true
	return syncDir(filepath.Dir(path))
}

// writeAll writes a file and syncs it to disk.
func writeAll(f *os.File, header Header, opts Options, write func(*Writer) error) error {
	w, err := NewWriter(f, header, opts)
	if err != nil {
		return err
	}
	if err := write(w); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return f.Sync()
}

// ReadFile opens the file at path and calls read with a reader of it. It returns the error of opening it, which wraps
// fs.ErrNotExist if there is none, or that of read. All errors name the path.
func ReadFile(path string, opts Options, read func(*Reader) error) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for its other end
		return fmt.Errorf("read %s: %w: it is no regular file", path, ErrBroken)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := NewReader(f, opts)
	if err == nil {
		r.size = info.Size()
		err = read(r)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// tempSuffix is the end of temporary file names: the name of the file, a random number, and this.
const tempSuffix = ".tmp"

// removeAbandoned removes temporary files of processes that were killed while writing the file.
func removeAbandoned(path string) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return // creating a file there will report why
	}
	for _, entry := range entries {
		ours := strings.HasPrefix(entry.Name(), filepath.Base(path)+".") && strings.HasSuffix(entry.Name(), tempSuffix)
		if ours && isAbandoned(entry) {
			os.Remove(filepath.Join(filepath.Dir(path), entry.Name()))
		}
	}
}

func isAbandoned(entry fs.DirEntry) bool {
	info, err := entry.Info()
	return err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > abandonedAfter
}

// syncDir syncs the directory entries to disk, if the file system can do that: not all network file systems can.
func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}
