package store_test

import (
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/object"
)

// foldedPods returns a store of n folded pods, and the growth of the heap per pod.
func foldedPods(b *testing.B, n int) (*store.Store[*corev1.Pod], []object.Key, float64) {
	pods := wiretest.Pods(n, 1)
	before := wiretest.LiveHeap()
	w := store.NewWriter[*corev1.Pod](store.Options{})
	codec, err := codec.New[*corev1.Pod](1 << 20)
	if err != nil {
		b.Fatal(err)
	}
	w.UseCodec(codec, reflect.TypeFor[*corev1.Pod]())
	w.AddIndex("node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
	g := w.Store().Gather(n)
	for _, p := range pods {
		g.Add(p)
		if g.Open() == 500 {
			g.Fold()
		}
	}
	g.Fold()
	txn := w.Begin()
	txn.Silence()
	txn.Replace("", g, "1", false)
	txn.Commit()
	grown := float64(wiretest.LiveHeap()-before) / float64(n)
	runtime.KeepAlive(pods)
	return w.Store(), slices.Collect(w.Store().Snapshot().Keys()), grown
}

// BenchmarkFolded reads folded pods: by key in random order, and all of them; compare with the
// generated decoder on the same bytes. The CPU time is that of the process, including the garbage
// collector.
func BenchmarkFolded(b *testing.B) {
	s, keys, grown := foldedPods(b, 20_000)
	shuffled := slices.Clone(keys)
	rand.Shuffle(len(keys), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	b.Run("Get", func(b *testing.B) {
		defer reportCPU(b)()
		for i := range b.N {
			if _, ok := s.Snapshot().Get(shuffled[i%len(keys)]); !ok {
				b.Fatal("it is missing")
			}
		}
		b.ReportMetric(grown, "heap-B/object")
	})
	b.Run("All", func(b *testing.B) {
		defer reportCPU(b)()
		for left := b.N; left > 0; {
			for range s.Snapshot().All() {
				if left--; left == 0 {
					break
				}
			}
		}
	})
	b.Run("Unmarshal", func(b *testing.B) {
		var encoded [][]byte
		for _, p := range wiretest.Pods(20_000, 1) {
			data, err := p.Marshal()
			if err != nil {
				b.Fatal(err)
			}
			encoded = append(encoded, data)
		}
		rand.Shuffle(len(keys), func(i, j int) { encoded[i], encoded[j] = encoded[j], encoded[i] })
		defer reportCPU(b)()
		for i := range b.N {
			if err := new(corev1.Pod).Unmarshal(encoded[i%len(keys)]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// reportCPU starts measuring; the returned function ends that.
func reportCPU(b *testing.B) (end func()) {
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime()
	return func() { b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op") }
}
