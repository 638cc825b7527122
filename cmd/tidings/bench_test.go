//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/source/recording"
)

// BenchmarkThousandChanges measures which part of a core a command takes that follows a thousand changes a second, each
// of the status of one of 200 pods: "cores". Each iteration is one such second. CPU time is that of the command's own
// process, without its start; the API server is in the benchmark's.
func BenchmarkThousandChanges(b *testing.B) {
	for name, args := range map[string][]string{
		"tail": {"tail", "pods", "-A"}, "tail-json": {"tail", "pods", "-A", "-o", "json"}, "top": {"top", "pods", "-A"},
		"timeline": {"timeline", "pod/pod-1", "--tree", "-A"},
	} {
		b.Run(name, func(b *testing.B) {
			c := newCluster(b)
			pods := changingPods(b)
			for _, pod := range pods {
				c.server.Create(content(b, pod))
			}
			x := start(b, c, 120, 40, args...)
			if err := c.server.WaitWatches(b.Context(), 1); err != nil {
				b.Fatal(err)
			}
			second(b, c, pods, 0) // the tables of the decoder fill
			before, n := processTime(b, x.cmd.Process.Pid), 0
			for b.Loop() {
				n++
				second(b, c, pods, n)
			}
			b.ReportMetric((processTime(b, x.cmd.Process.Pid)-before).Seconds()/float64(n), "cores")
			x.press("\x03")
			x.ends()
		})
	}
}

// BenchmarkDiff measures how much memory a comparison of two moments of a recording takes ("peak-MB", of the command's
// process) and how much CPU time: of 1000 pods, whose status changes ten times in between.
func BenchmarkDiff(b *testing.B) {
	file := filepath.Join(b.TempDir(), "pods.tidings")
	recordPods(b, file, 10)
	var peak int64
	var busy time.Duration
	n := 0
	for b.Loop() {
		n++
		cmd := exec.Command("tidings", "diff", file, "--at", "start")
		if text, err := cmd.CombinedOutput(); err != nil || bytes.Count(text, []byte("MODIFIED")) != 1000 {
			b.Fatalf("%v: %.1000s", err, text)
		}
		peak = max(peak, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
		busy += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	b.ReportMetric(float64(peak)/1024, "peak-MB")
	b.ReportMetric(busy.Seconds()/float64(n), "cpu-s/op")
}

// recordPods records how the status of 1000 pods changes.
func recordPods(b *testing.B, file string, times int) {
	b.Helper()
	recorder, err := recording.Create(file, recording.Options{})
	if err != nil {
		b.Fatal(err)
	}
	pods := wiretest.Pods(1000, 1)
	changes := watch.NewFakeWithChanSize(times*len(pods), false)
	src := recording.Record(recorder, source.ListerWatcher[*corev1.Pod](source.Funcs[*corev1.Pod]{
		ListFunc: func(_ context.Context, _ source.ListOptions[*corev1.Pod], each func(*corev1.Pod) error) (
			source.ListResult, error,
		) {
			for i, pod := range pods {
				pod.ResourceVersion = fmt.Sprint(i + 1)
				if err := each(pod.DeepCopy()); err != nil {
					return source.ListResult{}, err
				}
			}
			return source.ListResult{ResourceVersion: fmt.Sprint(len(pods))}, nil
		},
		WatchFunc: func(ctx context.Context, _ source.WatchOptions[*corev1.Pod]) (source.Stream[*corev1.Pod], error) {
			return source.NewStream[*corev1.Pod](ctx, changes), nil
		},
	}), source.Scope{Resource: corev1.SchemeGroupVersion.WithResource("pods")})
	ignore := func(*corev1.Pod) error { return nil }
	if _, err := src.List(b.Context(), source.ListOptions[*corev1.Pod]{}, ignore); err != nil {
		b.Fatal(err)
	}
	stream, err := src.Watch(b.Context(), source.WatchOptions[*corev1.Pod]{ResourceVersion: fmt.Sprint(len(pods))})
	if err != nil {
		b.Fatal(err)
	}
	for n := range times * len(pods) {
		pod := pods[n%len(pods)]
		pod.ResourceVersion = fmt.Sprint(len(pods) + n + 1)
		pod.Status.Message = fmt.Sprint("probe ", n)
		changes.Modify(pod.DeepCopy())
	}
	changes.Stop()
	for err == nil {
		_, err = stream.Next(nil)
	}
	if err := recorder.Close(); err != nil {
		b.Fatal(err)
	}
}

// changingPods returns pods as on a real cluster.
func changingPods(tb testing.TB) []*corev1.Pod {
	pods := wiretest.Pods(200, 1)
	for i, pod := range pods {
		pod.Name = fmt.Sprint("pod-", i)
		if len(pod.Status.Conditions) == 0 {
			tb.Fatal("a pod without conditions")
		}
	}
	return pods
}

func content(tb testing.TB, pod *corev1.Pod) *unstructured.Unstructured {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		tb.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: object}
	u.SetAPIVersion("v1")
	u.SetKind("Pod")
	return u
}

// second changes pods for a second, or as long as it takes.
func second(tb testing.TB, c *cluster, pods []*corev1.Pod, n int) {
	const steps = 100
	began := time.Now()
	for step := range steps {
		for i := range 1000 / steps {
			k := step*1000/steps + i
			pod := pods[k%len(pods)]
			condition := &pod.Status.Conditions[k%len(pod.Status.Conditions)]
			condition.Message = fmt.Sprint("probe ", n, " of ", k)
			condition.LastTransitionTime = metav1.NewTime(began)
			for i := range pod.ManagedFields {
				if pod.ManagedFields[i].Manager == "kubelet" {
					pod.ManagedFields[i].Time = &condition.LastTransitionTime
				}
			}
			c.server.Update(content(tb, pod))
		}
		time.Sleep(time.Until(began.Add(time.Duration(step+1) * time.Second / steps)))
	}
}

// processTime returns the CPU time of a process.
func processTime(tb testing.TB, pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		tb.Fatal(err)
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+2:])
	var ticks int
	for _, field := range fields[11:13] { // user and system time
		n, err := strconv.Atoi(string(field))
		if err != nil {
			tb.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}
