package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// patience is the timeout for the informers' sync.
const patience = 10 * time.Minute

// Usage is what a process has used when all its informers have synced and it has the metrics of all objects.
type Usage struct {
	Resources, Objects int
	Metrics            int           // bytes of the metrics
	CPU, Wall          time.Duration // since the start of the informers
	Heap, HeapObjects  uint64        // live, including the metrics
	RSS, PeakRSS       uint64        // bytes
}

// resource is a resource that the server can list and watch.
type resource struct {
	schema.GroupVersionResource
	kind schema.GroupVersionKind
}

// run runs the program of one engine.
func run(ctx context.Context, e engine, host string) (Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	config := &rest.Config{
		Host: host, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf", AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json"},
	}
	resources, err := discover(config)
	if err != nil {
		return Usage{}, err
	}
	began, before, err := time.Now(), time.Duration(0), error(nil)
	if before, err = cpuTime(); err != nil {
		return Usage{}, err
	}
	m := newMetrics()
	alive, err := e.start(ctx, config, resources, m)
	if err != nil {
		return Usage{}, err
	}
	after, err := cpuTime()
	usage := Usage{Resources: len(resources), CPU: after - before, Wall: time.Since(began)}
	if err != nil {
		return Usage{}, err
	}
	err = usage.addMemory()
	usage.Objects, usage.Metrics = m.size()
	runtime.KeepAlive(alive)
	return usage, err
}

// discover returns every resource that the server can list and watch and whose Go type is known, in
// its preferred version.
func discover(config *rest.Config) (resources []resource, err error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	lists, err := client.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			kind := gv.WithKind(r.Kind)
			if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch") && !strings.Contains(r.Name, "/") && scheme.Scheme.Recognizes(kind) {
				resources = append(resources, resource{gv.WithResource(r.Name), kind})
			}
		}
	}
	if len(resources) == 0 {
		return nil, errors.New("the server has no resources")
	}
	return resources, nil
}

func cpuTime() (time.Duration, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0, fmt.Errorf("read CPU time: %w", err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), nil
}

// addMemory measures the heap after collections that leave no garbage.
func (u *Usage) addMemory() (err error) {
	if u.RSS, err = memoryStatus("VmRSS:"); err != nil {
		return err
	}
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	u.Heap, u.HeapObjects = stats.HeapAlloc, stats.HeapObjects
	u.PeakRSS, err = memoryStatus("VmHWM:")
	return err
}

// memoryStatus returns a field of this process's status, in bytes.
func memoryStatus(field string) (uint64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, field); ok {
			kilobytes, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return kilobytes << 10, err
		}
	}
	return 0, fmt.Errorf("read memory: there is no %s", field)
}
