package main

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings/clientgo/cache"
	"github.com/tidings/tidings/examples/internal/cluster"
)

func withClientGo(ctx context.Context, c *cluster.Cluster) error {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	news := cluster.NewNews()
	var indexer cache.Indexer
	say := func(obj any) {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		s := obj.(*corev1.Service)
		keys, err := indexer.IndexKeys("host", host(s))
		if err != nil {
			news.Say("%v", err)
			return
		}
		news.Say("%s: %d at %s", s.Name, len(keys), host(s))
	}
	services := cache.NewListWatchFromClient(clientset.CoreV1().RESTClient(), "services", c.Namespace, fields.Everything())
	//lint:ignore SA1019 the name under which programs know it; NewInformerWithOptions takes the same as a struct
	indexer, controller := cache.NewIndexerInformer(services, &corev1.Service{}, 0, cache.ResourceEventHandlerFuncs{
		AddFunc: say, UpdateFunc: func(_, obj any) { say(obj) }, DeleteFunc: say,
	}, cache.Indexers{"host": func(obj any) ([]string, error) { return []string{host(obj.(*corev1.Service))}, nil }})
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { controller.RunWithContext(ctx) })
	defer running.Wait()
	defer cancel()
	next := func() error { return news.Print(ctx) }
	if err := next(); err != nil {
		return err
	}
	if err := c.Play(ctx, next); err != nil {
		return err
	}
	found, err := indexer.ByIndex("host", "www")
	if err != nil {
		return err
	}
	for _, obj := range found {
		fmt.Println("at www:", obj.(*corev1.Service).Name)
	}
	return nil
}
