package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
)

// namespace is the namespace of the demo.
const namespace = "demo"

// The demo's resources whose Go types do not determine the resource.
var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	widgets     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

// cluster has the demo's clients for the control plane.
type cluster struct {
	config   *rest.Config
	client   kubernetes.Interface
	dynamic  dynamic.Interface
	metadata metadata.Interface
}

func newCluster(config *rest.Config) (*cluster, error) {
	config.UserAgent = "demo" // the field manager of everything that is written here
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	versions, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &cluster{config: config, client: client, dynamic: objects, metadata: versions}, nil
}

// prepare creates the namespace and the custom resource.
func (c *cluster) prepare(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := c.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	crd, err := c.dynamic.Resource(definitions).Create(ctx, widgetDefinition(), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return c.awaitEstablished(ctx, crd.GetName())
}

func widgetDefinition() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{
			"group": widgets.Group, "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget"},
			"versions": []any{map[string]any{
				"name": widgets.Version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
}

// awaitEstablished waits, using an informer, until the server serves a custom resource.
func (c *cluster) awaitEstablished(ctx context.Context, name string) (err error) {
	factory, err := tidings.NewFactory(c.config, tidings.Options{})
	if err != nil {
		return err
	}
	defer shutdown(factory)
	crds, err := tidings.Informer[*unstructured.Unstructured](factory, tidings.Scope{Resource: definitions, Fields: "metadata.name=" + name})
	if err != nil {
		return err
	}
	changed, err := signalOn(crds)
	if err != nil {
		return err
	}
	if err := factory.Start(ctx); err != nil {
		return err
	}
	for !established(crds.Lister(), name) {
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s is not served: %w", name, ctx.Err())
		}
	}
	return nil
}

func established(crds tidings.Lister[*unstructured.Unstructured], name string) bool {
	crd, ok := crds.Get(name)
	if !ok {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions") // absent without a status
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
			return true
		}
	}
	return false
}

// signalOn returns a channel that receives a value when the informer's objects have changed.
func signalOn[T tidings.Object](inf *tidings.SharedInformer[T]) (<-chan struct{}, error) {
	changed := make(chan struct{}, 1)
	_, err := inf.HandleDeltas("signal", func(tidings.Delta[T]) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	return changed, err
}

// shutdown shuts down a factory. Nothing in the demo can keep it from ending.
func shutdown(f *tidings.Factory) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	_ = f.Shutdown(ctx)
}

// scale sets a ReplicaSet's number of replicas.
func (c *cluster) scale(ctx context.Context, name string, replicas int) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err := c.client.AppsV1().ReplicaSets(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// roundDuration rounds a duration for printing.
func roundDuration(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
