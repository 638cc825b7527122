package proto

import (
	"fmt"
	"hash/maphash"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/wire/wiretest"
)

// TestManyVersionsTakeNoMoreMemory holds the last versions of pods that were changed many times, as
// a cache does, and compares their memory with that of the same pods decoded for the first time.
// Tables are not counted.
func TestManyVersionsTakeNoMoreMemory(t *testing.T) {
	pods := wiretest.Pods(100, 5)
	for name, change := range map[string]func(*corev1.Pod, int){
		"kubelet": touch,
		"everything in turn": func(p *corev1.Pod, n int) {
			p.Status.Message = strings.Repeat("m", 500) + fmt.Sprint(n)
			switch n / len(pods) % 4 {
			case 0:
				p.Status.ContainerStatuses[0].ContainerID = fmt.Sprint("containerd://", n)
			case 1:
				p.Status.Conditions[n/len(pods)%5].Message = fmt.Sprint("message ", n)
			case 2:
				p.Status.PodIP = fmt.Sprint("10.0.0.", n)
			case 3:
				p.ManagedFields[0].Manager = fmt.Sprint("manager ", n)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var last [][]byte
			got := heapOf(t, func() any {
				d := newPodDecoder(t)
				kept := make([]*corev1.Pod, len(pods))
				for n := range 100 * len(pods) {
					pod := pods[n%len(pods)]
					change(pod, n)
					kept[n%len(pods)] = decodePod(t, d, pod)
				}
				last = marshalAll(t, pods)
				return kept
			})
			want := heapOf(t, func() any {
				d := newPodDecoder(t)
				kept := make([]*corev1.Pod, len(pods))
				for i, data := range last {
					pod, err := d.Decode(data)
					if err != nil {
						t.Fatal(err)
					}
					kept[i] = pod
				}
				return kept
			})
			got -= sizeOf(last)
			t.Logf("a pod takes %d bytes after many changes, %d when it is new", got/len(pods), want/len(pods))
			if got > want*7/4 {
				t.Error("that is too much")
			}
		})
	}
}

// heapOf returns the growth of the heap while the result of f is kept.
func heapOf(t *testing.T, f func() any) int {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := f()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return int(after.HeapAlloc) - int(before.HeapAlloc)
}

func sizeOf(encoded [][]byte) (n int) {
	for _, data := range encoded {
		n += cap(data)
	}
	return n
}

// held returns the decoder's count of what the pod holds.
func (c *podCache) held(uid types.UID) int {
	v, _ := c.d.versions.get(maphash.String(c.d.versions.checksummer.seed, string(uid)) | 1)
	return v.held
}

// TestHeldMemoryIsBounded has versions that each leave one short string behind for good, in the
// same block as a long one that is replaced at once.
func TestHeldMemoryIsBounded(t *testing.T) {
	d := newPodDecoder(t)
	const versions, long = 1000, maxDeferred - 100
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u"}}
	pod.Status.Conditions = make([]corev1.PodCondition, versions)
	for i := range pod.Status.Conditions {
		pod.Status.Conditions[i].Reason = fmt.Sprint("first ", i)
	}
	decodePod(t, d, pod)
	grown := heapOf(t, func() any {
		for i := range versions {
			pod.Status.Conditions[i].Reason = fmt.Sprint("second ", i)
			pod.Status.Message = fmt.Sprint(i, strings.Repeat("m", long))
			decodePod(t, d, pod)
			if held, size := d.held("u"), pod.Size(); held > size+2*maxDeferred {
				t.Fatalf("%d bytes are held after %d versions, with an encoding of %d", held, i, size)
			}
		}
		return pod
	})
	if d.held("u") == 0 {
		t.Error("nothing is known of the versions")
	}
	if limit := pod.Size() + versions*500 + 256<<10; grown > limit {
		t.Errorf("the heap has grown by %d bytes, want at most %d; all versions together have %d", grown, limit, versions*long)
	}
}

// TestUpdatesKeepTheTable checks that parts that are reused instead of looked up stay in the table for later objects.
func TestUpdatesKeepTheTable(t *testing.T) {
	d := newPodDecoder(t)
	pods := wiretest.Pods(50, 6)
	for _, pod := range pods {
		decodePod(t, d, pod)
	}
	before := d.Stats().TableEntries
	for range sweepEvery - len(pods) - 10 { // as if that many had been decoded
		d.d.table.Decoded()
	}
	for range 2 {
		for n, pod := range pods {
			touch(pod, n)
			decodePod(t, d, pod)
		}
	}
	if after := d.Stats().TableEntries; after < before {
		t.Errorf("%d entries are left of %d", after, before)
	}
}

// TestUpdatesAreLight counts the allocations for a pod that becomes ready or unready.
func TestUpdatesAreLight(t *testing.T) {
	d := newPodDecoder(t)
	pods := wiretest.Pods(500, 7)
	for _, pod := range pods {
		decodePod(t, d, pod)
	}
	for n, pod := range pods {
		touch(pod, n)
	}
	inputs, n := marshalAll(t, pods), 0
	allocs := testing.AllocsPerRun(len(pods)-1, func() {
		if _, err := d.Decode(inputs[n]); err != nil {
			t.Fatal(err)
		}
		n++
	})
	t.Logf("%.1f allocations", allocs)
	if allocs > 10 {
		t.Error("that are too many")
	}
}
