package proto

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// decoding is one way to decode a pod.
type decoding struct {
	name string
	make func(testing.TB) func([]byte) (*corev1.Pod, error)
}

func ours(opts wire.Options) func(testing.TB) func([]byte) (*corev1.Pod, error) {
	return func(t testing.TB) func([]byte) (*corev1.Pod, error) {
		d, err := New[*corev1.Pod](opts)
		if err != nil {
			t.Fatal(err)
		}
		return d.Decode
	}
}

func unmarshal(testing.TB) func([]byte) (*corev1.Pod, error) {
	return func(data []byte) (*corev1.Pod, error) {
		pod := &corev1.Pod{}
		return pod, pod.Unmarshal(data)
	}
}

var decodings = []decoding{
	{"generated", unmarshal},
	{"sharing", ours(wire.Options{})},
	{"trimmed", ours(wire.Options{Trim: []string{"metadata.managedFields"}})},
	{"alone", ours(wire.Options{NoSharing: true})},
}

func encodedPods(t testing.TB, n int, seed uint64) [][]byte {
	t.Helper()
	var out [][]byte
	for _, pod := range wiretest.Pods(n, seed) {
		data, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, data)
	}
	return out
}

// BenchmarkPod decodes 10,000 different pods with a new decoder each time, as the first list of an informer does, and
// reports what one takes.
func BenchmarkPod(b *testing.B) {
	inputs := encodedPods(b, 10_000, 1)
	for _, way := range decodings {
		b.Run(way.name, func(b *testing.B) {
			decodeAll(b, way, inputs, "pod")
		})
	}
}

// BenchmarkUpdate decodes the events of 1,000 pods that are updated again and again: each event has another resource
// version, time and container id.
func BenchmarkUpdate(b *testing.B) {
	pods := wiretest.Pods(1000, 2)
	var inputs [][]byte
	for round := range 10 {
		for _, pod := range pods {
			pod.ResourceVersion = fmt.Sprint(100_000_000 + len(inputs))
			pod.Status.Conditions[2].LastTransitionTime = metav1.Unix(int64(1_770_000_000+len(inputs)), 0)
			pod.Status.ContainerStatuses[0].ContainerID = fmt.Sprintf("containerd://%064x", len(inputs))
			pod.Status.ContainerStatuses[0].RestartCount = int32(round)
			data, err := pod.Marshal()
			if err != nil {
				b.Fatal(err)
			}
			inputs = append(inputs, data)
		}
	}
	for _, way := range decodings {
		b.Run(way.name, func(b *testing.B) {
			decodeAll(b, way, inputs, "event")
		})
	}
}

// decodeAll decodes the inputs in a loop, with a new decoder each time round, and reports what one takes: by the
// clock, and of CPU time including the collector's.
func decodeAll(b *testing.B, way decoding, inputs [][]byte, unit string) {
	cpu := processTime()
	for b.Loop() {
		decode := way.make(b)
		for _, data := range inputs {
			if _, err := decode(data); err != nil {
				b.Fatal(err)
			}
		}
	}
	n := float64(b.N * len(inputs))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/n, "ns/"+unit)
	b.ReportMetric(float64((processTime()-cpu).Nanoseconds())/n, "cpu-ns/"+unit)
}

// BenchmarkLiveHeap decodes 10,000 pods and reports what a pod costs as long as all are held, tables included.
func BenchmarkLiveHeap(b *testing.B) {
	inputs := encodedPods(b, 10_000, 1)
	for _, way := range decodings {
		b.Run(way.name, func(b *testing.B) {
			for b.Loop() {
				bytes, objects, allocs := liveHeap(b, way, inputs)
				b.ReportMetric(bytes, "B/pod")
				b.ReportMetric(objects, "objects/pod")
				b.ReportMetric(allocs, "allocs/pod")
			}
		})
	}
}

func liveHeap(t testing.TB, way decoding, inputs [][]byte) (bytes, objects, allocs float64) {
	t.Helper()
	var before, after runtime.MemStats
	pods := make([]*corev1.Pod, len(inputs))
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	decode := way.make(t)
	for i, data := range inputs {
		pod, err := decode(data)
		if err != nil {
			t.Fatal(err)
		}
		pods[i] = pod
	}
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	n := float64(len(inputs))
	bytes = float64(after.HeapAlloc-before.HeapAlloc) / n
	objects = float64(after.HeapObjects-before.HeapObjects) / n
	allocs = float64(after.Mallocs-before.Mallocs) / n
	runtime.KeepAlive(pods)
	runtime.KeepAlive(decode)
	return bytes, objects, allocs
}
