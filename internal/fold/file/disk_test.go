package file

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/testseed"
)

func write(path string, entries []entry) error {
	return WriteFile(path, testHeader, Options{}, func(w *Writer) error { return writeEntries(w, entries) })
}

func read(path string) (records []Record, err error) {
	err = ReadFile(path, Options{}, func(r *Reader) error {
		records, err = collect(r)
		return err
	})
	return records, err
}

func mustRead(t *testing.T, path string, want []entry) {
	t.Helper()
	records, err := read(path)
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, records, want)
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, entry := range entries {
		out = append(out, entry.Name())
	}
	return strings.Join(out, " ")
}

func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pods [v1]")
	entries := pods(t, 100)
	for _, n := range []int{100, 0, 50} {
		if err := write(path, entries[:n]); err != nil {
			t.Fatal(err)
		}
		mustRead(t, path, entries[:n])
	}
	if got := names(t, filepath.Dir(path)); got != "pods [v1]" {
		t.Errorf("the directory has %s", got)
	}
}

func TestErrorWhileWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pods")
	entries := pods(t, 1000)
	if err := write(path, entries[:10]); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	err := WriteFile(path, testHeader, Options{}, func(w *Writer) error {
		return errors.Join(writeEntries(w, entries), stop)
	})
	if !errors.Is(err, stop) || !strings.Contains(err.Error(), path) {
		t.Errorf("the error is %v", err)
	}
	// An error that the callback ignores is not lost.
	err = WriteFile(path, testHeader, Options{}, func(w *Writer) error {
		w.Write(Record{Extra: string(make([]byte, maxPayload))})
		return nil
	})
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("the error is %v", err)
	}
	mustRead(t, path, entries[:10])
	if got := names(t, filepath.Dir(path)); got != "pods" {
		t.Errorf("the directory has %s", got)
	}
}

// TestPanicWhileWriting leaves the file unchanged, and no other files.
func TestPanicWhileWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pods")
	entries := pods(t, 10)
	if err := write(path, entries); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = WriteFile(path, testHeader, Options{}, func(*Writer) error { panic("oh dear") })
	}()
	mustRead(t, path, entries)
	if got := names(t, filepath.Dir(path)); got != "pods" {
		t.Errorf("the directory has %s", got)
	}
}

func TestPathsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	if err := write(filepath.Join(dir, "none", "pods"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("writing into no directory: %v", err)
	}
	if _, err := read(filepath.Join(dir, "pods")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading no file: %v", err)
	}
	if err := write(dir, nil); err == nil {
		t.Error("a directory was replaced by a file")
	}
	if _, err := read(dir); !errors.Is(err, ErrBroken) {
		t.Errorf("reading a directory: %v", err)
	}
}

// TestAbandonedFiles are removed when the file is next written; those of living processes, and of other files, are not.
func TestAbandonedFiles(t *testing.T) {
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{
		"pods.1.tmp": 2 * time.Hour, "pods.2.tmp": 0, "nodes.3.tmp": 2 * time.Hour, "pods.4": 2 * time.Hour, "podsets.5.tmp": 2 * time.Hour,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(filepath.Join(dir, "pods"), nil); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); got != "nodes.3.tmp pods pods.2.tmp pods.4 podsets.5.tmp" {
		t.Errorf("the directory has %s", got)
	}
}

// childDir is the environment variable that makes the test program the child of TestKilledWhileWriting.
const childDir = "FOLD_FILE_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		err := writeForever(filepath.Join(dir, "file"))
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// generation returns the records of the n-th file, all of which contain n.
func generation(n int) []Record {
	var p fold.Packer
	out := make([]Record, 500+n%500)
	for i := range out {
		data := fmt.Sprintf("object %d of generation %d, %0*d", i, n, 100+n%300, i)
		out[i] = Record{Name: strconv.Itoa(i), ResourceVersion: strconv.Itoa(n), Object: p.Pack([]byte(data), nil)}
	}
	return out
}

// writeForever replaces the file repeatedly, and prints a line after each frame's worth of records and each file.
func writeForever(path string) error {
	for n := 0; ; n++ {
		err := WriteFile(path, testHeader, Options{}, func(w *Writer) error {
			for i, record := range generation(n) {
				if i%20 == 0 {
					fmt.Println("writing")
				}
				if err := w.Write(record); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// TestKilledWhileWriting kills a writing process at random points. The last file it reported, or
// the one after that, is there and complete.
func TestKilledWhileWriting(t *testing.T) {
	r := testseed.Rand(t)
	for range 15 {
		dir := t.TempDir()
		last := killAfter(t, dir, 30+r.IntN(300))
		records, err := read(filepath.Join(dir, "file"))
		if last < 0 && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatalf("after generation %d: %v", last, err)
		}
		n, err := strconv.Atoi(records[0].ResourceVersion)
		if err != nil || n < last {
			t.Fatalf("generation %d was written, %d is there, %v", last, n, err)
		}
		mustBeGeneration(t, records, n)
	}
}

func mustBeGeneration(t *testing.T, records []Record, n int) {
	t.Helper()
	var want []entry
	for _, record := range generation(n) {
		data, err := record.Object.Open(nil)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, entry{record, data})
	}
	mustEqual(t, records, want)
}

// killAfter runs the child until it has printed that many lines, and kills it. It returns the last generation that the
// child reported, -1 for none.
func killAfter(t *testing.T, dir string, lines int) int {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childDir+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	last := -1
	for said := bufio.NewScanner(out); lines > 0 && said.Scan(); lines-- {
		if n, err := strconv.Atoi(said.Text()); err == nil {
			last = n
		}
	}
	if lines > 0 {
		t.Fatalf("the child ended by itself: %v", child.Wait())
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait() // reports that it was killed
	return last
}
