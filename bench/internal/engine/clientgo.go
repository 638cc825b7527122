package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/bench/internal/server"
)

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

type clientGo struct {
	informer cache.SharedIndexInformer
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

func startClientGo(ctx context.Context, c Config, o *Observer) (Engine, error) {
	informer, err := newClientGoInformer(c)
	if err != nil {
		return nil, fmt.Errorf("start client-go: %w", err)
	}
	e := &clientGo{informer: informer}
	if _, err := informer.AddEventHandler(observing(o)); err != nil {
		return nil, fmt.Errorf("start client-go: %w", err)
	}
	ctx, e.cancel = context.WithCancel(ctx)
	e.running.Go(func() { informer.RunWithContext(ctx) })
	return e, nil
}

func newClientGoInformer(c Config) (cache.SharedIndexInformer, error) {
	if c.Encoding == server.JSON {
		client, err := dynamic.NewForConfig(&rest.Config{Host: c.Host})
		if err != nil {
			return nil, err
		}
		byNode := func(obj any) ([]string, error) { return unstructuredNode(obj.(*unstructured.Unstructured)), nil }
		return dynamicinformer.NewFilteredDynamicInformer(client, pods, metav1.NamespaceAll, 0, cache.Indexers{"node": byNode}, nil).Informer(), nil
	}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: c.Host, ContentConfig: rest.ContentConfig{
		AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json",
		ContentType:        "application/vnd.kubernetes.protobuf",
	}})
	if err != nil {
		return nil, err
	}
	byNode := func(obj any) ([]string, error) { return podNode(obj.(*corev1.Pod)), nil }
	return informers.NewPodInformer(client, metav1.NamespaceAll, 0, cache.Indexers{"node": byNode}), nil
}

func podNode(pod *corev1.Pod) []string { return []string{pod.Spec.NodeName} }

func unstructuredNode(obj *unstructured.Unstructured) []string {
	node, _, _ := unstructured.NestedString(obj.Object, "spec", "nodeName")
	return []string{node}
}

func observing(o *Observer) cache.ResourceEventHandler {
	see := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if m, err := meta.Accessor(obj); err == nil {
			o.See(m.GetResourceVersion())
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, obj any) { see(obj) }, DeleteFunc: see}
}

func (e *clientGo) AddHandlers(ctx context.Context, n int) error {
	for range n {
		changes := 0
		count := func(any) { changes++ }
		reg, err := e.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: count, UpdateFunc: func(_, obj any) { count(obj) }, DeleteFunc: count,
		})
		if err != nil {
			return fmt.Errorf("add a handler to client-go: %w", err)
		}
		select {
		case <-reg.HasSyncedChecker().Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (e *clientGo) Stop() error {
	e.cancel()
	e.running.Wait()
	if !e.informer.IsStopped() {
		return errors.New("client-go's informer has ended without being stopped")
	}
	return nil
}
