package main

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/deltafifo"
	"github.com/tidings/tidings/examples/internal/cluster"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/store"
)

func withTidings(ctx context.Context, c *cluster.Cluster) error {
	client, err := source.NewClient(c.Config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	services, err := source.NewHTTP[*corev1.Service](client, source.Scope{
		Resource: corev1.SchemeGroupVersion.WithResource("services"), Namespace: c.Namespace,
	})
	if err != nil {
		return err
	}
	objects := store.NewWriter[*corev1.Service](store.Options{})
	queue := deltafifo.New[*corev1.Service](deltafifo.Options{Policy: deltafifo.Unbounded})
	r, err := reflector.New(reflector.Options[*corev1.Service]{Source: services, Sink: queue})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) }) // only returns when ctx ends
	defer running.Wait()
	defer cancel()

	next := func() error { return apply(ctx, queue, objects) }
	if err := next(); err != nil {
		return err
	}
	if err := c.Play(ctx, next); err != nil {
		return err
	}
	left := objects.Store().Snapshot()
	for key := range left.Keys() {
		fmt.Println(left.Len(), "service is left:", key.Name)
	}
	return nil
}

// apply applies the next changes in the queue to the store, in one transaction, and prints them.
func apply(ctx context.Context, queue *deltafifo.Queue[*corev1.Service], objects *store.Writer[*corev1.Service]) error {
	for {
		batch, err := queue.Pop(ctx)
		if err != nil {
			return err
		}
		txn := objects.Begin()
		deltas := batch.Deltas
		if batch.Type == deltafifo.Replace { // the collection is exactly these objects; the store computes the changes
			deltas = txn.Replace("", batch.Objects, batch.ResourceVersion, false)
		}
		for _, d := range batch.Deltas {
			if d.Type == object.Deleted {
				txn.Delete(d.Key)
			} else {
				txn.Set(d.Key, d.Object)
			}
		}
		txn.Advance("", batch.ResourceVersion)
		txn.Commit()
		for _, d := range deltas {
			fmt.Println(verb(d, batch.Type), d.Key.Name, d.Object.Spec.ExternalName)
		}
		if len(deltas) > 0 { // not a bookmark
			return nil
		}
	}
}

func verb(d object.Delta[*corev1.Service], from deltafifo.BatchType) string {
	switch {
	case from == deltafifo.Replace:
		return "listed"
	case d.Type == object.Deleted:
		return "deleted"
	case d.Type == object.Added:
		return "added"
	}
	return "changed"
}
