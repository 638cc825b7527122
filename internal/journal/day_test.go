package journal_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/journal"
	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/object"
)

// encode encodes a pod, in protobuf or JSON.
func encode(t testing.TB, pod *corev1.Pod, asJSON bool) []byte {
	t.Helper()
	data, err := pod.Marshal()
	if asJSON {
		data, err = json.Marshal(pod)
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// day feeds a journal with a day of a cluster in which every pod is replaced: it is deleted, in
// three steps, and another one is created, bound and started, in five.
type day struct {
	j       *journal.Journal
	t       testing.TB
	asJSON  bool
	version int
	seconds float64 // between two changes
	first   int     // the version before the first change
}

const changesOfPod = 8

func newDay(t testing.TB, pods []*corev1.Pod, asJSON bool) *day {
	d := &day{t: t, asJSON: asJSON, j: newJournal(t, journal.Options{}), version: 1_000_000}
	d.seconds = (23*time.Hour + 59*time.Minute).Seconds() / float64(len(pods)*changesOfPod)
	d.first = d.version
	err := d.j.Reset(strconv.Itoa(d.version), start, func(yield func(journal.Change) bool) {
		for _, pod := range pods {
			if !yield(d.state(object.Added, pod)) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *day) now() time.Time {
	return start.Add(time.Duration(float64(d.version-d.first) * d.seconds * float64(time.Second)))
}

func (d *day) state(kind object.DeltaType, pod *corev1.Pod) journal.Change {
	pod.ResourceVersion = strconv.Itoa(d.version)
	return journal.Change{
		Key: object.KeyOf(pod), UID: pod.UID, Version: pod.ResourceVersion, Time: d.now(), Type: kind,
		Object: encode(d.t, pod, d.asJSON),
	}
}

func (d *day) step(kind object.DeltaType, pod *corev1.Pod) {
	d.version++
	add(d.t, d.j, d.state(kind, pod))
}

// replace replaces one pod.
func (d *day) replace(pod *corev1.Pod, n int) {
	now := metav1.NewTime(d.now())
	old := pod.DeepCopy()
	old.DeletionTimestamp, old.DeletionGracePeriodSeconds = &now, new(int64(30))
	d.step(object.Updated, old)
	for i := range old.Status.Conditions {
		if c := &old.Status.Conditions[i]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			c.Status, c.LastTransitionTime = corev1.ConditionFalse, now
		}
	}
	d.step(object.Updated, old)
	d.step(object.Deleted, old)

	ready := pod.DeepCopy()
	ready.Name = fmt.Sprintf("%s%05x", pod.Name[:len(pod.Name)-5], n)
	ready.UID = types.UID(fmt.Sprintf("%08x-7b1c-4f0a-9d3e-%012x", n*2654435761%(1<<32), n*40503*65537))
	ready.CreationTimestamp = now
	created := ready.DeepCopy()
	created.Spec.NodeName, created.Status = "", corev1.PodStatus{Phase: corev1.PodPending, QOSClass: pod.Status.QOSClass}
	d.step(object.Added, created)
	created.Spec.NodeName = ready.Spec.NodeName
	created.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now}}
	d.step(object.Updated, created)
	starting := ready.DeepCopy()
	starting.Status.Phase, starting.Status.PodIP, starting.Status.PodIPs = corev1.PodPending, "", nil
	for i := range starting.Status.ContainerStatuses {
		s := &starting.Status.ContainerStatuses[i]
		s.Ready, s.State = false, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	}
	d.step(object.Updated, starting)
	running := ready.DeepCopy()
	for i := range running.Status.Conditions {
		running.Status.Conditions[i].LastTransitionTime = now
		if c := &running.Status.Conditions[i]; c.Type == corev1.PodReady {
			c.Status = corev1.ConditionFalse
		}
	}
	d.step(object.Updated, running)
	for i := range running.Status.Conditions {
		running.Status.Conditions[i].Status = corev1.ConditionTrue
	}
	d.step(object.Updated, running)
}

// TestMemory: a day of 20,000 pods that are all replaced takes at most 64 MiB, and the journal knows what it takes. The
// memory grows with the number of pods, so fewer show it.
func TestMemory(t *testing.T) {
	const most = 64 << 20 // for 20,000 pods
	const fixed = 1 << 20 // dictionaries and tables
	for _, encoding := range []string{"protobuf", "JSON"} {
		t.Run(encoding, func(t *testing.T) {
			pods := wiretest.Pods(scale(t, 2_000), 1)
			before := wiretest.LiveHeap()
			d := newDay(t, pods, encoding == "JSON")
			for i, pod := range pods {
				d.replace(pod, i)
			}
			used := wiretest.LiveHeap() - before
			s := d.j.Stats()
			t.Logf("%d objects, %d changes: %.1f MB of heap, %.1f counted", s.Objects, s.Changes, float64(used)/1e6, float64(s.Bytes)/1e6)
			if want := len(pods) * changesOfPod; s.Changes != want {
				t.Errorf("%d of %d changes are kept", s.Changes, want)
			}
			if used > fixed+int64(len(pods))*most/20_000 {
				t.Errorf("it takes %d bytes", used)
			}
			if difference := max(used-s.Bytes, s.Bytes-used); difference > used/10+fixed {
				t.Errorf("it counts %d bytes, and takes %d", s.Bytes, used)
			}
			runtime.KeepAlive(pods)
			runtime.KeepAlive(d)
		})
	}
}

func scale(t *testing.T, n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

func BenchmarkAdd(b *testing.B) {
	pods := wiretest.Pods(2_000, 1)
	d := newDay(b, pods, false)
	i := 0
	for b.Loop() {
		d.replace(pods[i%len(pods)], i)
		i++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(i*changesOfPod), "ns/change")
}

// BenchmarkAt reads random states of an object that changes all day, which is the most expensive case, and of pods.
func BenchmarkAt(b *testing.B) {
	b.Run("busy", func(b *testing.B) {
		pod := wiretest.Pods(1, 1)[0]
		d := newDay(b, []*corev1.Pod{pod}, false)
		d.seconds = 0.5
		for i := range 100_000 {
			pod.Status.Message = fmt.Sprint("heartbeat ", i)
			d.step(object.Updated, pod)
		}
		s := d.j.Stats()
		begin, _ := strconv.Atoi(s.BeginVersion)
		for i := 0; b.Loop(); i++ {
			version := begin + i*7919%s.Changes
			if _, err := d.j.At(object.KeyOf(pod), journal.Version(strconv.Itoa(version))); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("pods", func(b *testing.B) {
		pods := wiretest.Pods(2_000, 1)
		d := newDay(b, pods, false)
		for i, pod := range pods {
			d.replace(pod, i)
		}
		for i := 0; b.Loop(); i++ {
			if _, err := d.j.At(object.KeyOf(pods[i%len(pods)]), journal.Version(strconv.Itoa(d.first))); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkSince(b *testing.B) {
	pods := wiretest.Pods(2_000, 1)
	d := newDay(b, pods, false)
	for i, pod := range pods {
		d.replace(pod, i)
	}
	n := 0
	for b.Loop() {
		for _, err := range d.j.Since(strconv.Itoa(d.version - 1000)) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/change")
}
