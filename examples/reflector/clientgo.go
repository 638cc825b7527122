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
	objects := cache.NewStore(cache.MetaNamespaceKeyFunc)
	queue := cache.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{KnownObjects: objects, EmitDeltaTypeReplaced: true})
	defer context.AfterFunc(ctx, queue.Close)() // wakes a blocked Pop
	r := cache.NewReflector(services, &corev1.Service{}, queue, 0)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { r.RunWithContext(ctx) })
	defer running.Wait()
	defer cancel()

	next := func() error {
		_, err := queue.Pop(func(popped any, _ bool) error { return applyDeltas(popped.(cache.Deltas), objects) })
		return err
	}
	if err := next(); err != nil {
		return err
	}
	if err := c.Play(ctx, next); err != nil {
		return err
	}
	for _, key := range objects.ListKeys() {
		_, name, err := cache.SplitMetaNamespaceKey(key)
		if err != nil {
			return err
		}
		fmt.Println(len(objects.ListKeys()), "service is left:", name)
	}
	return nil
}

// applyDeltas applies the changes of one object from the queue to the store, and prints them.
func applyDeltas(deltas cache.Deltas, objects cache.Store) (err error) {
	for _, d := range deltas {
		s, ok := d.Object.(*corev1.Service)
		if !ok {
			return fmt.Errorf("unexpected %T", d.Object) // such as a DeletedFinalStateUnknown after a missed deletion
		}
		verb := map[cache.DeltaType]string{cache.Replaced: "listed", cache.Added: "added", cache.Updated: "changed", cache.Deleted: "deleted"}[d.Type]
		if d.Type == cache.Deleted {
			err = objects.Delete(s)
		} else {
			err = objects.Update(s)
		}
		if err != nil {
			return err
		}
		fmt.Println(verb, s.Name, s.Spec.ExternalName)
	}
	return nil
}
