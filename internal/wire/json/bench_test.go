//go:build unix

package json

import (
	"bytes"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// BenchmarkDecode decodes many objects and keeps them all, as a cache does. It reports the CPU
// time, including the garbage collector's, the live heap per object, including the decoder's
// tables, and the number of heap objects.
func BenchmarkDecode(b *testing.B) {
	for _, set := range []struct {
		name string
		docs [][]byte
	}{{"custom", wiretest.CustomResources(20000, 1)}, {"pods", podDocs(b, 20000)}} {
		b.Run(set.name+"/upstream", func(b *testing.B) {
			benchmarkKept(b, set.docs, func() decode { return upstream })
		})
		b.Run(set.name+"/sharing", func(b *testing.B) {
			benchmarkKept(b, set.docs, func() decode {
				d := newDecoder(b, wire.Options{})
				return func(data []byte) (*unstructured.Unstructured, error) { return d.Decode(data, nil) }
			})
		})
	}
}

type decode func([]byte) (*unstructured.Unstructured, error)

func benchmarkKept(b *testing.B, docs [][]byte, fresh func() decode) {
	total := 0
	for _, data := range docs {
		total += len(data)
	}
	var grown runtime.MemStats
	var used time.Duration
	for b.Loop() {
		before := heap()
		start := cpu(b)
		decode := fresh()
		kept := make([]*unstructured.Unstructured, 0, len(docs))
		for _, data := range docs {
			object, err := decode(data)
			if err != nil {
				b.Fatal(err)
			}
			kept = append(kept, object)
		}
		used += cpu(b) - start
		grown = heap()
		grown.HeapAlloc -= before.HeapAlloc
		grown.HeapObjects -= before.HeapObjects
		runtime.KeepAlive(kept)
		runtime.KeepAlive(decode)
	}
	each := float64(len(docs))
	b.ReportMetric(float64(total)/each, "wireB/object")
	b.ReportMetric(float64(grown.HeapAlloc)/each, "heapB/object")
	b.ReportMetric(float64(grown.HeapObjects)/each, "heapobjects/object")
	b.ReportMetric(float64(used.Nanoseconds())/each/float64(b.N), "cpu-ns/object")
	b.ReportMetric(0, "ns/op") // includes the measuring of all objects: meaningless
}

func heap() (stats runtime.MemStats) {
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats
}

// cpu returns the CPU time that the process has used.
func cpu(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkEvents reads the events of a watch without decoding their objects.
func BenchmarkEvents(b *testing.B) {
	var text bytes.Buffer
	docs := podDocs(b, 200)
	for _, data := range docs {
		fmt.Fprintf(&text, `{"type":"ADDED","object":%s}`, data)
	}
	b.SetBytes(int64(text.Len() / len(docs)))
	b.ReportAllocs()
	r := NewEventReader(bytes.NewReader(nil), 0)
	for b.Loop() {
		_, _, err := r.Next()
		if err != nil {
			r = NewEventReader(bytes.NewReader(text.Bytes()), 0)
		}
	}
}

// BenchmarkPeek finds the identity of an object.
func BenchmarkPeek(b *testing.B) {
	d, data := newDecoder(b, wire.Options{}), podDocs(b, 1)[0]
	b.ReportAllocs()
	for b.Loop() {
		d.Peek(data)
	}
}
