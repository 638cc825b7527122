package store_test

import (
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/store"
)

// podCodec encodes pods with the generated code.
type podCodec struct{}

func (podCodec) Append(dst []byte, p *corev1.Pod) ([]byte, error) {
	data, err := p.Marshal()
	return append(dst, data...), err
}

func (c podCodec) Decode(data []byte, _ *corev1.Pod) (*corev1.Pod, error) { return c.DecodeAlone(data) }

func (podCodec) DecodeAlone(data []byte) (*corev1.Pod, error) {
	p := new(corev1.Pod)
	return p, p.Unmarshal(data)
}

// foldedPods returns a store of n pods, of which all are folded, and what the heap has grown by for each.
func foldedPods(n int) (*store.Store[*corev1.Pod], []object.Key, float64) {
	pods := wiretest.Pods(n, 1)
	before := live()
	w := store.NewWriter[*corev1.Pod](store.Options{})
	w.UseCodec(podCodec{}, reflect.TypeFor[*corev1.Pod]())
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
	grown := float64(live()-before) / float64(n)
	runtime.KeepAlive(pods)
	return w.Store(), slices.Collect(w.Store().Snapshot().Keys()), grown
}

func live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkFolded reads folded pods, with the generated decoder: by key in random order, and all of them.
func BenchmarkFolded(b *testing.B) {
	s, keys, grown := foldedPods(10_000)
	b.Run("Get", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := s.Snapshot().Get(keys[rand.IntN(len(keys))]); !ok {
				b.Fatal("it is missing")
			}
		}
		b.ReportMetric(grown, "heap-B/object")
	})
	b.Run("All", func(b *testing.B) {
		for b.Loop() {
			for range s.Snapshot().All() {
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(keys)), "ns/object")
	})
	b.Run("Unmarshal", func(b *testing.B) { // what these are compared with
		pods := wiretest.Pods(10_000, 1)
		var encoded [][]byte
		for _, p := range pods {
			data, err := p.Marshal()
			if err != nil {
				b.Fatal(err)
			}
			encoded = append(encoded, data)
		}
		b.ReportAllocs()
		for b.Loop() {
			if err := new(corev1.Pod).Unmarshal(encoded[rand.IntN(len(encoded))]); err != nil {
				b.Fatal(err)
			}
		}
	})
}
