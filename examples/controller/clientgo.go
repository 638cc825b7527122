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
	services := cache.NewListWatchFromClient(clientset.CoreV1().RESTClient(), "services", c.Namespace, fields.Everything())
	news := cluster.NewNews()
	//lint:ignore SA1019 the name under which programs know it; NewInformerWithOptions takes the same as a struct
	store, controller := cache.NewInformer(services, &corev1.Service{}, 0, cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { news.Say("added %s", obj.(*corev1.Service).Name) },
		UpdateFunc: func(oldObj, newObj any) {
			old, new := oldObj.(*corev1.Service), newObj.(*corev1.Service)
			news.Say("changed %s: %s → %s", new.Name, old.Spec.ExternalName, new.Spec.ExternalName)
		},
		DeleteFunc: func(obj any) {
			key, err := cache.DeletionHandlingObjectToName(obj) // obj may be a tombstone
			if err != nil {
				news.Say("deleted %v", err)
				return
			}
			news.Say("deleted %s", key.Name)
		},
	})
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
	for _, obj := range store.List() {
		s := obj.(*corev1.Service)
		fmt.Println("in the store:", s.Name, s.Spec.ExternalName)
	}
	return nil
}
