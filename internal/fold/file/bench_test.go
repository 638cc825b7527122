package file

import (
	"path/filepath"
	"testing"
)

// BenchmarkFile writes and reads files of 10,000 pods.
func BenchmarkFile(b *testing.B) {
	entries := pods(b, 10_000)
	for name, opts := range bothOptions {
		path := filepath.Join(b.TempDir(), "pods")
		b.Run("write/"+name, func(b *testing.B) {
			for b.Loop() {
				if err := WriteFile(path, testHeader, opts, func(w *Writer) error { return writeEntries(w, entries) }); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(entries)), "ns/object")
		})
		b.Run("read/"+name, func(b *testing.B) {
			for b.Loop() {
				if err := ReadFile(path, opts, func(r *Reader) error { _, err := collect(r); return err }); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(entries)), "ns/object")
		})
	}
}
