// Command peer runs Kubernetes' own ReplicaSet controller, alone, for the benchmark that compares
// it with this project's.
//
// It prints "ready" once its caches are synced, works until its standard input ends, and then prints its usage: CPU
// seconds, and API calls by method and resource.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/pkg/controller/replicaset"
)

// The defaults of kube-controller-manager.
const (
	workers = 5
	burst   = replicaset.BurstReplicas
)

// report is printed at the end.
type report struct {
	ProcessorSeconds float64        `json:"processorSeconds"`
	Calls            map[string]int `json:"calls"`
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig file")
	flag.Parse()
	if err := run(context.Background(), *kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	c := &counter{calls: map[string]int{}}
	config.Wrap(c.wrap)
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	ctx, cancel := context.WithCancel(ctx)
	stopped, err := start(ctx, config)
	if err == nil {
		fmt.Println("ready")
		_, err = io.Copy(io.Discard, os.Stdin)
	}
	used := processorSeconds()
	cancel()
	stopped()
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(report{used, c.copy()}))
}

// start runs the controller until ctx ends, and returns when its caches are synced. stopped waits for the end.
func start(ctx context.Context, config *rest.Config) (stopped func(), err error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return func() {}, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	c := replicaset.NewReplicaSetController(ctx, factory.Apps().V1().ReplicaSets(), factory.Core().V1().Pods(), client, burst)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx, workers) })
	return func() {
		running.Wait()
		factory.Shutdown()
	}, nil
}

// counter counts API calls.
type counter struct {
	mu    sync.Mutex
	calls map[string]int
}

func (c *counter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		c.mu.Lock()
		c.calls[r.Method+" "+resource(r.URL.Path)]++
		c.mu.Unlock()
		return next.RoundTrip(r)
	})
}

func (c *counter) copy() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.calls)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// resource returns the resource in a path, with its subresource: "replicasets/status".
func resource(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if i := slices.Index(parts, "namespaces"); i >= 0 && len(parts) > i+2 {
		parts = parts[i+2:]
		if len(parts) > 1 {
			parts = slices.Delete(parts, 1, 2) // drop the name
		}
		return strings.Join(parts, "/")
	}
	return parts[len(parts)-1]
}

func processorSeconds() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}
