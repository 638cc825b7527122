package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo/informers"
	"github.com/tidings/tidings/examples/internal/cluster"
)

func withClientGo(ctx context.Context, c *cluster.Cluster) error {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithNamespace(c.Namespace))
	services := factory.Core().V1().Services()
	changes, counts := cluster.NewNews(), cluster.NewNews()
	_, err = services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { changes.Say("added %s", obj.(*corev1.Service).Name) },
		UpdateFunc: func(_, obj any) { changes.Say("changed %s", obj.(*corev1.Service).Name) },
		DeleteFunc: func(obj any) {
			key, err := cache.DeletionHandlingObjectToName(obj) // obj may be a tombstone
			if err != nil {
				changes.Say("deleted %v", err)
				return
			}
			changes.Say("deleted %s", key.Name)
		},
	})
	if err != nil {
		return err
	}
	events := 0
	count := func(any) {
		events++ // a handler is called for one change at a time
		counts.Say("  event %d", events)
	}
	_, err = services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: count, UpdateFunc: func(_, obj any) { count(obj) }, DeleteFunc: count,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer factory.Shutdown()
	defer cancel()
	factory.StartWithContext(ctx)
	if err := factory.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		return err
	}
	next := func() error { return errors.Join(changes.Print(ctx), counts.Print(ctx)) }
	if err := next(); err != nil {
		return err
	}
	if err := c.Play(ctx, next); err != nil {
		return err
	}
	found, err := services.Lister().Services(c.Namespace).List(labels.Everything())
	if err != nil {
		return err
	}
	for _, s := range found {
		fmt.Println("the lister has", s.Name)
	}
	return nil
}
