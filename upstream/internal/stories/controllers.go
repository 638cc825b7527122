package stories

import (
	"context"
	"fmt"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/kubernetes/pkg/controller/disruption"
	"k8s.io/kubernetes/pkg/controller/statefulset"

	"github.com/tidings/tidings/upstream/internal/controllers"
)

// statefulSets makes the StatefulSet controller.
func statefulSets(ctx context.Context, config *rest.Config, f controllers.Factories) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	core, apps := f.Typed.Core().V1(), f.Typed.Apps().V1()
	c := statefulset.NewStatefulSetController(ctx, core.Pods(), apps.StatefulSets(),
		core.PersistentVolumeClaims(), apps.ControllerRevisions(), client)
	return func(ctx context.Context) { c.Run(ctx, 2) }, nil
}

// disruptions makes the controller of PodDisruptionBudgets.
func disruptions(ctx context.Context, config *rest.Config, f controllers.Factories) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	scales, err := scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc,
		scale.NewDiscoveryScaleKindResolver(client.Discovery()))
	if err != nil {
		return nil, fmt.Errorf("a client for scales: %w", err)
	}
	core, apps := f.Typed.Core().V1(), f.Typed.Apps().V1()
	c := disruption.NewDisruptionController(ctx, core.Pods(), f.Typed.Policy().V1().PodDisruptionBudgets(),
		core.ReplicationControllers(), apps.ReplicaSets(), apps.Deployments(), apps.StatefulSets(), client, mapper, scales,
		discovery.NewDiscoveryClientForConfigOrDie(config))
	return c.Run, nil
}
