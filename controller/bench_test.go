package controller

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/object"
)

// BenchmarkDelta measures the cost of a change in a handler, up to the queue.
func BenchmarkDelta(b *testing.B) {
	cache := newPodCache(newServer())
	c := New("bench", succeed, Options{})
	w := newWatch(cache, Owner[*corev1.Pod](cache, kindReplicaSet))
	d := object.Delta[*corev1.Pod]{Type: object.Updated, Key: key("a"), Old: pod("a", "web"), Object: pod("a", "web")}
	b.ReportAllocs()
	for b.Loop() {
		w.handle(c, d, nil)
	}
}

// BenchmarkReconcile measures the controller's overhead for a reconcile that does nothing, with three caches.
func BenchmarkReconcile(b *testing.B) {
	c := New("bench", succeed, Options{})
	for range 3 {
		if err := Use(c, newPodCache(newServer())); err != nil {
			b.Fatal(err)
		}
	}
	ctx, k := context.Background(), key("a")
	b.ReportAllocs()
	for b.Loop() {
		c.Enqueue(k)
		got, err := c.queue.Get(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if !c.gate.blocks(got) {
			c.process(ctx, got)
		}
	}
}
