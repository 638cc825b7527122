package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/tidingstest/controlplane"
)

const (
	loadSets     = 200
	loadReplicas = 10
)

// BenchmarkReplicaSetLoad creates 200 ReplicaSets of 10 pods at once, and takes the time until
// every status says that all are there. Besides the time it reports API calls by kind, and the
// processor time of the process that has the controllers. For the controllers here that is this
// process, so that what creates and watches the sets is in it.
//
// TIDINGS_PEER may name the program made of controlplane/internal/peer: then Kubernetes' own
// controller gets the same load.
func BenchmarkReplicaSetLoad(b *testing.B) {
	cp := controlplane.Start(b, controlplane.Options{UnsafeNoFsync: true})
	b.Run("tidings", func(b *testing.B) {
		benchmarkLoad(b, cp, func(namespace string) (stop func() usage) { return startOurs(b, cp, namespace) })
	})
	if peer := os.Getenv("TIDINGS_PEER"); peer != "" {
		b.Run("upstream", func(b *testing.B) {
			benchmarkLoad(b, cp, func(string) (stop func() usage) { return startPeer(b, peer, cp.Kubeconfig()) })
		})
	}
}

// usage is what a controller has used.
type usage struct {
	ProcessorSeconds float64
	Calls            map[string]int // such as "POST pods"
}

// benchmarkLoad measures the load with the controller that start starts.
func benchmarkLoad(b *testing.B, cp *controlplane.ControlPlane, start func(namespace string) (stop func() usage)) {
	client := clientFor(b, cp.Config())
	total := usage{Calls: map[string]int{}}
	for b.Loop() {
		b.StopTimer()
		namespace := newNamespace(b, client)
		f := startFactory(b, cp.Config(), tidings.Options{})
		sets := informer[*appsv1.ReplicaSet](b, f, tidings.Scope{Namespaces: []string{namespace}})
		if err := f.WaitForSync(b.Context()); err != nil {
			b.Fatal(err)
		}
		stop := start(namespace)
		b.StartTimer()

		createSets(b, client, namespace)
		await(b, sets, "all replicas", converged)

		b.StopTimer()
		used := stop()
		total.ProcessorSeconds += used.ProcessorSeconds
		for call, n := range used.Calls {
			total.Calls[call] += n
		}
		empty(b, client, namespace)
		b.StartTimer()
	}
	perOp := func(calls ...string) (sum float64) {
		for _, call := range calls {
			sum += float64(total.Calls[call]) / float64(b.N)
		}
		return sum
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/op")
	b.ReportMetric(total.ProcessorSeconds/float64(b.N), "cpu-s/op")
	b.ReportMetric(perOp("POST pods"), "creates/op")
	b.ReportMetric(perOp("PUT replicasets/status"), "status-updates/op")
	b.ReportMetric(perOp("POST events", "PATCH events"), "events/op")
}

// startOurs runs the controllers in this process.
func startOurs(b *testing.B, cp *controlplane.ControlPlane, namespace string) (stop func() usage) {
	b.Helper()
	calls := &callCounter{calls: map[string]int{}}
	config := cp.Config()
	config.ContentType = runtime.ContentTypeProtobuf
	config.Wrap(calls.wrap)
	before := processorSeconds(b)
	end := runControllers(b, config, namespace, nil)
	return func() usage {
		used := processorSeconds(b) - before
		if err := end(); err != nil {
			b.Fatal(err)
		}
		return usage{used, calls.calls}
	}
}

// startPeer runs upstream's controller.
func startPeer(b *testing.B, program, kubeconfig string) (stop func() usage) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), program, "--kubeconfig", kubeconfig)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	answers := bufio.NewReader(stdout)
	if line, err := answers.ReadString('\n'); err != nil || line != "ready\n" {
		b.Fatalf("%s: %q, %v", program, line, err)
	}
	return func() usage {
		var used usage
		_ = stdin.Close() // which ends it
		if err := errors.Join(json.NewDecoder(answers).Decode(&used), cmd.Wait()); err != nil {
			b.Fatalf("%s: %v", program, err)
		}
		return used
	}
}

// empty deletes what the load has left behind, so that the next does not have to carry it.
func empty(b *testing.B, client kubernetes.Interface, namespace string) {
	b.Helper()
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	err := errors.Join(
		client.AppsV1().ReplicaSets(namespace).DeleteCollection(b.Context(), now, metav1.ListOptions{}),
		client.CoreV1().Pods(namespace).DeleteCollection(b.Context(), now, metav1.ListOptions{}),
	)
	if err != nil {
		b.Fatal(err)
	}
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

func converged(s tidings.Snapshot[*appsv1.ReplicaSet]) bool {
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

// processorSeconds is what this process has used so far.
func processorSeconds(b *testing.B) float64 {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}
