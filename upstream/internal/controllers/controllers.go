// Package controllers runs unmodified controllers of Kubernetes on informer factories of the caller's choice.
package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/replication"
)

const (
	workers = 5
	burst   = 500 // maximum number of pods that a ReplicaSet creates or deletes at once, as in kube-controller-manager
	resync  = 2 * time.Minute
)

// Factories are the informer factories from which the controllers read.
type Factories struct {
	Typed    informers.SharedInformerFactory
	Metadata metadatainformer.SharedInformerFactory
}

// shutdowner is implemented by both factories in addition to their interfaces.
type shutdowner interface{ Shutdown() }

// runner is a controller that is ready to run until its context ends.
type runner func(ctx context.Context)

// More makes a controller that runs beside the others.
type More func(ctx context.Context, config *rest.Config, f Factories) (run func(ctx context.Context), err error)

// Run runs the ReplicaSet, ReplicationController, Deployment, Job, EndpointSlice and namespace
// controllers and the garbage collector, and more, until ctx ends, and returns when all of them and the
// factories have stopped.
func Run(ctx context.Context, config *rest.Config, f Factories, more ...More) error {
	clients, err := newClients(config)
	if err != nil {
		return err
	}
	started := make(chan struct{})
	all, err := clients.controllers(ctx, f, started)
	if err != nil {
		return err
	}
	for _, m := range more {
		run, err := m(ctx, config, f)
		if err != nil {
			return err
		}
		all = append(all, run)
	}
	f.Typed.Start(ctx.Done())
	f.Metadata.Start(ctx.Done())
	close(started)
	var wg sync.WaitGroup
	for _, run := range all {
		wg.Go(func() { run(ctx) })
	}
	wg.Wait()
	for _, factory := range []any{f.Typed, f.Metadata} {
		if s, ok := factory.(shutdowner); ok {
			s.Shutdown()
		}
	}
	return nil
}

type clients struct {
	typed    kubernetes.Interface
	metadata metadata.Interface
	mapper   *restmapper.DeferredDiscoveryRESTMapper
}

func newClients(config *rest.Config) (clients, error) {
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return clients{}, err
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return clients{}, err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(typed.Discovery()))
	return clients{typed, meta, mapper}, nil
}

func (c clients) controllers(ctx context.Context, f Factories, started <-chan struct{}) ([]runner, error) {
	core, apps := f.Typed.Core().V1(), f.Typed.Apps().V1()
	deployments, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), core.Pods(), c.typed)
	if err != nil {
		return nil, fmt.Errorf("deployment controller: %w", err)
	}
	jobs, err := job.NewController(ctx, c.typed, core.Pods(), f.Typed.Batch().V1().Jobs(), nil, nil)
	if err != nil {
		return nil, fmt.Errorf("job controller: %w", err)
	}
	collector, err := c.collector(ctx, f, started)
	if err != nil {
		return nil, fmt.Errorf("garbage collector: %w", err)
	}
	replicaSets := replicaset.NewReplicaSetController(ctx, apps.ReplicaSets(), core.Pods(), c.typed, burst)
	replication := replication.NewReplicationManager(ctx, core.Pods(), core.ReplicationControllers(), c.typed, burst)
	slices := endpointslice.NewController(ctx, core.Pods(), core.Services(), core.Nodes(), f.Typed.Discovery().V1().EndpointSlices(), 100, c.typed, 0)
	namespaces := namespace.NewNamespaceController(ctx, c.typed, c.metadata, c.typed.Discovery().ServerPreferredNamespacedResources, core.Namespaces(), resync,
		corev1.FinalizerKubernetes)
	return []runner{
		withWorkers(deployments.Run), withWorkers(jobs.Run), withWorkers(replicaSets.Run), withWorkers(replication.Run), withWorkers(slices.Run),
		withWorkers(namespaces.Run), collector,
	}, nil
}

func withWorkers(run func(ctx context.Context, workers int)) runner {
	return func(ctx context.Context) { run(ctx, workers) }
}

// collector returns the garbage collector, which checks for new resources every few seconds.
func (c clients) collector(ctx context.Context, f Factories, started <-chan struct{}) (runner, error) {
	ignored := garbagecollector.DefaultIgnoredResources()
	both := informerfactory.NewInformerFactory(f.Typed, f.Metadata)
	gc, err := garbagecollector.NewGarbageCollector(ctx, c.typed, c.metadata, c.mapper, ignored, both, started)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		var wg sync.WaitGroup
		wg.Go(func() { gc.Run(ctx, workers, 30*time.Second) })
		wg.Go(func() { gc.Sync(ctx, c.typed.Discovery(), 30*time.Second) })
		wg.Wait()
	}, nil
}
