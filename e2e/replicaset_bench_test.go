package e2e

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/tidingstest"
)

const (
	loadSets     = 200
	loadReplicas = 10
)

// BenchmarkReplicaSetLoad creates 200 ReplicaSets of 10 pods at once, and takes the time until every status says that all
// are there. Besides the time it reports the API calls by kind, and the processor time of this process: the
// controllers and the little that creates and watches the sets, but not the API server.
func BenchmarkReplicaSetLoad(b *testing.B) {
	cp := tidingstest.StartControlPlane(b, tidingstest.ControlPlaneOptions{UnsafeNoFsync: true})
	client := clientFor(b, cp.Config())
	calls := &callCounter{calls: map[string]int{}}
	config := cp.Config()
	config.Wrap(calls.wrap)
	var cpu time.Duration
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		namespace := newNamespace(b, client)
		f := startFactory(b, cp.Config(), tidings.Options{})
		sets := informer[*appsv1.ReplicaSet](b, f, tidings.Scope{Namespaces: []string{namespace}})
		stop := runControllers(b, config, namespace, nil)
		if err := f.WaitForSync(b.Context()); err != nil {
			b.Fatal(err)
		}
		before := processorTime(b)
		b.StartTimer()

		createSets(b, client, namespace)
		await(b, sets, "all replicas", converged)

		b.StopTimer()
		cpu += processorTime(b) - before
		if err := stop(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	perOp := func(n int) float64 { return float64(n) / float64(b.N) }
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/op")
	b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu-s/op")
	b.ReportMetric(perOp(calls.count("POST pods")), "creates/op")
	b.ReportMetric(perOp(calls.count("PUT replicasets/status")), "status-updates/op")
	b.ReportMetric(perOp(calls.count("POST events")+calls.count("PATCH events")), "events/op")
}

func createSets(b *testing.B, client kubernetes.Interface, namespace string) {
	b.Helper()
	var creators sync.WaitGroup
	for worker := range 10 {
		creators.Go(func() {
			for i := worker; i < loadSets; i += 10 {
				name, n := fmt.Sprint("web-", i), int32(loadReplicas)
				_, err := client.AppsV1().ReplicaSets(namespace).Create(b.Context(), &appsv1.ReplicaSet{
					ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.ReplicaSetSpec{
						Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template(name),
					},
				}, metav1.CreateOptions{})
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	creators.Wait()
}

func converged(s *tidings.Snapshot[*appsv1.ReplicaSet]) bool {
	if s.Len() < loadSets {
		return false
	}
	for _, rs := range s.All() {
		if rs.Status.Replicas != loadReplicas || rs.Status.ObservedGeneration != rs.Generation {
			return false
		}
	}
	return true
}

// processorTime is what this process has used so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
