package proto

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// decoding is one way to decode the pods of a cache. The result of make is given a function that
// finds the cached version by uid.
type decoding struct {
	name string
	make func(testing.TB) func(data []byte, find func(uid []byte) *corev1.Pod) (*corev1.Pod, error)
}

func ours(opts wire.Options) func(testing.TB) func([]byte, func([]byte) *corev1.Pod) (*corev1.Pod, error) {
	return func(t testing.TB) func([]byte, func([]byte) *corev1.Pod) (*corev1.Pod, error) {
		d, err := New[*corev1.Pod](opts)
		if err != nil {
			t.Fatal(err)
		}
		var buffer []byte
		return func(data []byte, find func([]byte) *corev1.Pod) (*corev1.Pod, error) {
			buffer = append(buffer[:0], data...) // as from a connection
			meta, ok := d.Peek(buffer)
			if !ok {
				t.Fatal("no uid")
			}
			return d.Decode(buffer, find(meta.UID))
		}
	}
}

func unknown([]byte) *corev1.Pod { return nil }

func unmarshal(testing.TB) func([]byte, func([]byte) *corev1.Pod) (*corev1.Pod, error) {
	return func(data []byte, _ func([]byte) *corev1.Pod) (*corev1.Pod, error) {
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
	return marshalAll(t, wiretest.Pods(n, seed))
}

func marshalAll(t testing.TB, pods []*corev1.Pod) [][]byte {
	t.Helper()
	var out [][]byte
	for _, pod := range pods {
		data, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, data)
	}
	return out
}

// BenchmarkPod decodes 10,000 different pods with a new decoder each time, like the first list of an informer, and
// reports the cost per pod.
func BenchmarkPod(b *testing.B) {
	inputs := encodedPods(b, 10_000, 1)
	for _, way := range decodings {
		b.Run(way.name, func(b *testing.B) {
			decodeAll(b, way, inputs, len(inputs), "pod")
		})
	}
}

// BenchmarkUpdate decodes the events of 1,000 pods that are updated repeatedly: each event has a new resource
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
			decodeAll(b, way, inputs, len(pods), "event")
		})
	}
}

// BenchmarkEvent decodes 20,000 pods and then, in random order, an event of each in which it
// becomes ready or unready. It reports the cost per event; the last version of each pod is held, as
// by a cache.
func BenchmarkEvent(b *testing.B) {
	pods := wiretest.Pods(20_000, 3)
	inputs := marshalAll(b, pods)
	order := rand.New(rand.NewPCG(3, 3)).Perm(len(pods))
	events := make([][]byte, len(pods))
	for n, i := range order {
		touch(pods[i], n)
		data, err := pods[i].Marshal()
		if err != nil {
			b.Fatal(err)
		}
		events[n] = data
	}
	clear(pods)
	for _, way := range decodings {
		b.Run(way.name, func(b *testing.B) {
			for b.Loop() {
				decodeEvents(b, way, inputs, events, order)
			}
		})
	}
}

// touch makes the changes that a kubelet makes when the readiness of a container changes, as the n-th write of all.
func touch(pod *corev1.Pod, n int) {
	now := metav1.Unix(int64(1_770_000_000+n), 0)
	pod.ResourceVersion = fmt.Sprint(100_000_000 + n)
	ready := !pod.Status.ContainerStatuses[0].Ready
	pod.Status.ContainerStatuses[0].Ready = ready
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type != corev1.PodReady && c.Type != corev1.ContainersReady {
			continue
		}
		c.Status, c.Reason, c.Message, c.LastTransitionTime = corev1.ConditionTrue, "", "", now
		if !ready {
			c.Status, c.Reason = corev1.ConditionFalse, "ContainersNotReady"
			c.Message = fmt.Sprintf("containers with unready status: [%s]", pod.Spec.Containers[0].Name)
		}
	}
	pod.ManagedFields[len(pod.ManagedFields)-1].Time = &now
}

// decodeEvents decodes the inputs with a new decoder, and then the events, the n-th of which belongs to input order[n].
// It reports the cost per event.
func decodeEvents(b *testing.B, way decoding, inputs, events [][]byte, order []int) {
	decode := way.make(b)
	pods := make([]*corev1.Pod, len(inputs))
	index := make(map[string]int, len(inputs))
	find := func(uid []byte) *corev1.Pod {
		if i, ok := index[string(uid)]; ok {
			return pods[i]
		}
		return nil
	}
	set := func(i int, data []byte) {
		pod, err := decode(data, find)
		if err != nil {
			b.Fatal(err)
		}
		pods[i] = pod
	}
	for i, data := range inputs {
		set(i, data)
		index[string(pods[i].UID)] = i
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start, cpu := time.Now(), processTime()
	for n, data := range events {
		set(order[n], data)
	}
	took, used := time.Since(start), processTime()-cpu
	runtime.ReadMemStats(&after)
	n := float64(len(events))
	b.ReportMetric(float64(took.Nanoseconds())/n, "ns/event")
	b.ReportMetric(float64(used.Nanoseconds())/n, "cpu-ns/event")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/n, "B/event")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/n, "allocs/event")
	runtime.KeepAlive(pods)
}

// decodeAll decodes the inputs in a loop, with a new decoder each round, and reports the cost of
// one: by the clock, and in CPU time including the collector's. Each n inputs are of n objects, in
// the same order.
func decodeAll(b *testing.B, way decoding, inputs [][]byte, n int, unit string) {
	cpu := processTime()
	for b.Loop() {
		decode := way.make(b)
		pods := make([]*corev1.Pod, n)
		for i, data := range inputs {
			pod, err := decode(data, func([]byte) *corev1.Pod { return pods[i%n] })
			if err != nil {
				b.Fatal(err)
			}
			pods[i%n] = pod
		}
	}
	all := float64(b.N * len(inputs))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/all, "ns/"+unit)
	b.ReportMetric(float64((processTime()-cpu).Nanoseconds())/all, "cpu-ns/"+unit)
}

// BenchmarkLiveHeap decodes 10,000 pods and reports the live heap per pod, tables included.
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
		pod, err := decode(data, unknown)
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
