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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	coordination "k8s.io/client-go/informers/coordination/v1"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/bench/internal/server"
	"github.com/tidings/tidings/clientgo"
)

type clientGo struct {
	informers []cache.SharedIndexInformer
	cancel    context.CancelFunc
	running   sync.WaitGroup
}

// maker creates the informer of a namespace.
type maker func(namespace string) cache.SharedIndexInformer

func startClientGo(ctx context.Context, c Config, see func(version string), makers func(Config) (maker, error)) (Engine, error) {
	e := &clientGo{}
	makeInformer, err := makers(c)
	if err != nil {
		return nil, fmt.Errorf("start client-go: %w", err)
	}
	for _, namespace := range c.namespaces() {
		informer := makeInformer(namespace)
		if c.Transform != "" {
			if err := informer.SetTransform(c.Transform.apply); err != nil {
				return nil, fmt.Errorf("start client-go: %w", err)
			}
		}
		if _, err := informer.AddEventHandler(observing(see)); err != nil {
			return nil, fmt.Errorf("start client-go: %w", err)
		}
		e.informers = append(e.informers, informer)
	}
	ctx, e.cancel = context.WithCancel(ctx)
	for _, informer := range e.informers {
		e.running.Go(func() { informer.RunWithContext(ctx) })
	}
	return e, nil
}

// clientGoInformers returns a maker of client-go informers. Their index is by node for pods, else by namespace.
func clientGoInformers(c Config) (maker, error) {
	if c.Way != "" {
		return clientGoWay(c)
	}
	config := c.rest()
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	if c.Encoding == server.JSON {
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		byNode := cache.Indexers{"node": func(obj any) ([]string, error) { return unstructuredNode(obj.(*unstructured.Unstructured)), nil }}
		return func(namespace string) cache.SharedIndexInformer {
			return dynamicinformer.NewFilteredDynamicInformer(client, c.Corpus.Kind().Resource, namespace, 0, byNode, nil).Informer()
		}, nil
	}
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	switch c.Corpus {
	case corpus.ConfigMaps:
		return func(ns string) cache.SharedIndexInformer {
			return informers.NewConfigMapInformer(client, ns, 0, byNamespace)
		}, nil
	case corpus.Events:
		return func(ns string) cache.SharedIndexInformer {
			return informers.NewEventInformer(client, ns, 0, byNamespace)
		}, nil
	case corpus.Leases:
		return func(ns string) cache.SharedIndexInformer {
			return coordination.NewLeaseInformer(client, ns, 0, byNamespace)
		}, nil
	case corpus.Nodes:
		return func(string) cache.SharedIndexInformer { return informers.NewNodeInformer(client, 0, byNamespace) }, nil
	default:
		byNode := cache.Indexers{"node": func(obj any) ([]string, error) { return podNode(obj.(*corev1.Pod)), nil }}
		return func(ns string) cache.SharedIndexInformer { return informers.NewPodInformer(client, ns, 0, byNode) }, nil
	}
}

// throughInformers returns a maker of Tidings' pod informers behind client-go's interfaces.
func throughInformers(c Config) (maker, error) {
	switch {
	case c.Parts > 0:
		return nil, errors.New("only one informer is measured through clientgo")
	case c.Way != "":
		return throughWay(c)
	case c.Encoding == server.JSON:
		return throughDynamic(c), nil
	}
	factory := clientgo.NewSharedInformerFactory(c.rest(), 0)
	return func(string) cache.SharedIndexInformer {
		informer := factory.Core().V1().Pods().Informer()
		byNode := cache.Indexers{"node": func(obj any) ([]string, error) { return podNode(obj.(*corev1.Pod)), nil }}
		if err := informer.AddIndexers(byNode); err != nil {
			panic(err) // it has not been started, and has no such index
		}
		return informer
	}, nil
}

func unstructuredNode(obj *unstructured.Unstructured) []string {
	node, _, _ := unstructured.NestedString(obj.Object, "spec", "nodeName")
	return []string{node}
}

func observing(see func(version string)) cache.ResourceEventHandler {
	tell := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if m, err := meta.Accessor(obj); err == nil {
			see(m.GetResourceVersion())
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: tell, UpdateFunc: func(_, obj any) { tell(obj) }, DeleteFunc: tell}
}

func (e *clientGo) AddHandlers(ctx context.Context, n int) error {
	return addClientGoHandlers(ctx, e.informers[0], n)
}

func addClientGoHandlers(ctx context.Context, informer cache.SharedIndexInformer, n int) error {
	for range n {
		changes := 0
		count := func(any) { changes++ }
		reg, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: count, UpdateFunc: func(_, obj any) { count(obj) }, DeleteFunc: count,
		})
		if err != nil {
			return fmt.Errorf("add a handler to client-go: %w", err)
		}
		if err := waitDone(ctx, reg.HasSyncedChecker()); err != nil {
			return err
		}
	}
	return nil
}

func waitDone(ctx context.Context, checker cache.DoneChecker) error {
	select {
	case <-checker.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", checker.Name(), context.Cause(ctx))
	}
}

func (e *clientGo) ListPods() (int, error) {
	pods, err := listers.NewPodLister(e.informers[0].GetIndexer()).List(labels.Everything())
	return len(pods), err
}

func (e *clientGo) Stop() error {
	e.cancel()
	e.running.Wait()
	for _, informer := range e.informers {
		if !informer.IsStopped() {
			return errors.New("client-go's informer has ended without being stopped")
		}
	}
	return nil
}

type clientGoCache struct {
	informer  cache.SharedIndexInformer
	namespace string
	cancel    context.CancelFunc
	running   sync.WaitGroup
}

func newClientGoCache(client Client, namespace string) *clientGoCache {
	listWatch := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, opts)
		},
		WatchFuncWithContext: client.Watch,
	}
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	return &clientGoCache{
		namespace: namespace,
		informer:  cache.NewSharedIndexInformerWithOptions(listWatch, &corev1.Pod{}, cache.SharedIndexInformerOptions{Indexers: indexers}),
	}
}

func (c *clientGoCache) Start(ctx context.Context, update func()) error {
	reg, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { update() }})
	if err != nil {
		return fmt.Errorf("start client-go: %w", err)
	}
	run, cancel := context.WithCancel(ctx)
	c.cancel = cancel
	c.running.Go(func() { c.informer.RunWithContext(run) })
	return waitDone(ctx, reg.HasSyncedChecker())
}

func (c *clientGoCache) List() int { return listNamespace(c.informer.GetIndexer(), c.namespace) }

func (c *clientGoCache) AddHandlers(ctx context.Context, n int) error {
	return addClientGoHandlers(ctx, c.informer, n)
}

func (c *clientGoCache) Stop() {
	c.cancel()
	c.running.Wait()
}
