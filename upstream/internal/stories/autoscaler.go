package stories

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"

	"github.com/tidings/tidings/upstream/internal/controllers"
)

// load is what the metrics API says of the pods: how long a queue is. It has no other metrics.
type load struct{ queue atomic.Int64 }

var errNoMetrics = errors.New("the server has no such metric")

func (l *load) GetExternalMetric(string, string, k8slabels.Selector) ([]int64, time.Time, error) {
	return []int64{l.queue.Load() * 1000}, time.Now(), nil // thousandths
}

func (*load) GetResourceMetric(
	context.Context, corev1.ResourceName, string, k8slabels.Selector, string,
) (metrics.PodMetricsInfo, time.Time, error) {
	return nil, time.Time{}, errNoMetrics
}

func (*load) GetRawMetric(
	string, string, k8slabels.Selector, k8slabels.Selector,
) (metrics.PodMetricsInfo, time.Time, error) {
	return nil, time.Time{}, errNoMetrics
}

func (*load) GetObjectMetric(
	string, string, *autoscalingv2.CrossVersionObjectReference, k8slabels.Selector,
) (int64, time.Time, error) {
	return 0, time.Time{}, errNoMetrics
}

// autoscalers makes the controller of HorizontalPodAutoscalers. It looks at the load every second, and does not wait
// before it scales down: that is how one flaps.
func (w *world) autoscalers(
	ctx context.Context, config *rest.Config, f controllers.Factories,
) (func(context.Context), error) {
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
	c := podautoscaler.NewHorizontalController(ctx, client.CoreV1(), scales, client.AutoscalingV2(), mapper, &w.load,
		f.Typed.Autoscaling().V2().HorizontalPodAutoscalers(), f.Typed.Core().V1().Pods(),
		time.Second, 0, 0.1, time.Second, time.Second)
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

var autoscalers = schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}

// autoscale creates an autoscaler of a Deployment, for a queue of which each pod takes ten.
func (w *world) autoscale(name string) error {
	return w.create("kubectl-create", autoscalers, fmt.Sprintf(`{
		"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": %q},
		"spec": {"minReplicas": 2, "maxReplicas": 6,
			"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": %[1]q},
			"metrics": [{"type": "External", "external": {"metric": {"name": "queue"},
				"target": {"type": "AverageValue", "averageValue": "10"}}}]}}`, name))
}

// flap lets the load swing between two sizes, each until the autoscaler has followed.
func flap(w *world) error {
	for n := range 6 {
		queue, replicas := int64(20), int32(2)
		if n%2 == 0 {
			queue, replicas = 40, 4
		}
		w.load.queue.Store(queue)
		if err := w.until(fmt.Sprint(replicas, " replicas"), func() (bool, error) {
			d, err := w.client.AppsV1().Deployments(w.namespace).Get(w.ctx, "web", metav1.GetOptions{})
			return err == nil && *d.Spec.Replicas == replicas, err
		}); err != nil {
			return err
		}
		if err := w.rolledOut("web"); err != nil {
			return err
		}
	}
	return nil
}
