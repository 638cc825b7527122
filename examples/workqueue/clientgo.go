package main

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo/dynamicinformer"
	"github.com/tidings/tidings/clientgo/workqueue"
	"github.com/tidings/tidings/examples/internal/cluster"
	"github.com/tidings/tidings/examples/internal/website"
)

func withClientGo(ctx context.Context, c *cluster.Cluster, services services, news cluster.News) error {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
	enqueue := func(obj any) {
		key, err := cache.DeletionHandlingObjectToName(obj) // obj may be a tombstone
		if err != nil {
			news.Say("%v", err)
			return
		}
		queue.Add(key)
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, c.Namespace, nil)
	websites := factory.ForResource(website.Resource)
	_, err = websites.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }, DeleteFunc: enqueue,
	})
	if err != nil {
		return err
	}
	reconcile := func(key cache.ObjectName) (string, error) {
		obj, err := websites.Lister().ByNamespace(key.Namespace).Get(key.Name)
		if apierrors.IsNotFound(err) {
			return services.remove(ctx, key.Name)
		} else if err != nil {
			return "", err
		}
		host, _, err := unstructured.NestedString(obj.(*unstructured.Unstructured).Object, "spec", "host")
		if err != nil {
			return "", err
		}
		return services.ensure(ctx, key.Name, host)
	}
	worker := func() {
		for {
			key, shutdown := queue.Get()
			if shutdown {
				return
			}
			if done, err := reconcile(key); err != nil {
				news.Say("%s: retrying later: %v", key.Name, err)
				queue.AddRateLimited(key)
			} else {
				news.Say("%s", done)
				queue.Forget(key)
			}
			queue.Done(key)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer factory.Shutdown()
	defer cancel()
	factory.Start(ctx.Done())
	cache.WaitForCacheSync(ctx.Done(), websites.Informer().HasSynced)
	var workers sync.WaitGroup
	workers.Go(worker)
	<-ctx.Done()
	queue.ShutDown()
	workers.Wait()
	return nil
}
