package json

import (
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// BenchmarkDecode decodes many objects and keeps them all, as a cache does. Besides the time it reports the heap that
// an object takes once garbage is gone, the decoder's tables included, and the number of heap objects.
func BenchmarkDecode(b *testing.B) {
	for _, set := range []struct {
		name string
		docs [][]byte
	}{{"custom", wiretest.CustomResources(20000, 1)}, {"pods", podDocs(b, 20000)}} {
		b.Run(set.name+"/upstream", func(b *testing.B) {
			benchmarkKept(b, set.docs, func() decode { return upstream })
		})
		b.Run(set.name+"/sharing", func(b *testing.B) {
			benchmarkKept(b, set.docs, func() decode { return newDecoder(b, wire.Options{}).Decode })
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
	for b.Loop() {
		before := heap()
		decode := fresh()
		kept := make([]*unstructured.Unstructured, 0, len(docs))
		for _, data := range docs {
			object, err := decode(data)
			if err != nil {
				b.Fatal(err)
			}
			kept = append(kept, object)
		}
		b.StopTimer()
		grown = heap()
		grown.HeapAlloc -= before.HeapAlloc
		grown.HeapObjects -= before.HeapObjects
		runtime.KeepAlive(kept)
		runtime.KeepAlive(decode)
		b.StartTimer()
	}
	each := float64(len(docs))
	b.ReportMetric(float64(total)/each, "wireB/object")
	b.ReportMetric(float64(grown.HeapAlloc)/each, "heapB/object")
	b.ReportMetric(float64(grown.HeapObjects)/each, "heapobjects/object")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/each/float64(b.N), "ns/object")
}

func heap() (stats runtime.MemStats) {
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats
}
