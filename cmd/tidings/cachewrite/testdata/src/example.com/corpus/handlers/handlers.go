// Package handlers writes to what caches pass to functions.
package handlers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

type controller struct{ informer cache.SharedIndexInformer }

func (c *controller) start() {
	c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			pod := obj.(*corev1.Pod)
			pod.Name = "a" // want `that a cache passed to a handler.*field Name is set`
		},
		UpdateFunc: c.updated,
		DeleteFunc: deleted,
	})
	c.informer.AddEventHandler(own{})
	_ = c.informer.GetIndexer().AddIndexers(cache.Indexers{"node": func(obj any) ([]string, error) {
		pod := obj.(*corev1.Pod)
		pod.Spec.NodeName = "a" // want `that a cache passed to a function.*field NodeName is set`
		return nil, nil
	}})
	_ = c.informer.SetTransform(func(obj any) (any, error) {
		obj.(*corev1.Pod).Annotations = nil // the object is not cached yet
		return obj, nil
	})
	handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []string {
		o.SetLabels(nil) // want `SetLabels writes to it`
		return nil
	})
}

func (c *controller) updated(old, new any) {
	oldPod, ok := old.(*corev1.Pod)
	if !ok {
		return
	}
	newPod := new.(*corev1.Pod)
	oldPod.ResourceVersion = newPod.ResourceVersion // want `field ResourceVersion is set`
	newPod = newPod.DeepCopy()
	newPod.Name = "a"
}

func deleted(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		tombstone.Key = "a"
		obj = tombstone.Obj
	}
	pod := obj.(*corev1.Pod)
	pod.Labels["deleted"] = "true" // want `an entry of a map is set`
}

type own struct{ pods []*corev1.Pod }

func (o own) OnAdd(obj any, initial bool) {
	o.pods[0] = obj.(*corev1.Pod)
	obj.(*corev1.Pod).Name = "a" // want `field Name is set`
}
func (o own) OnUpdate(old, new any) { new.(*corev1.Pod).Name = "a" } // want `field Name is set`
func (o own) OnDelete(obj any)      { o.gone(obj.(*corev1.Pod)) }    // want `gone writes to it`
func (o own) gone(pod *corev1.Pod)  { pod.Status.Phase = "gone" }

func changed(e event.UpdateEvent) bool {
	e.ObjectNew.SetAnnotations(nil) // want `of an event.*SetAnnotations writes to it`
	e.ObjectNew = nil
	return e.ObjectOld == nil
}

func stores(store cache.Store, indexer cache.Indexer) {
	obj, _, _ := store.GetByKey("a")
	obj.(*corev1.Pod).Name = "b" // want `that Store.GetByKey returned.*field Name is set`
	for _, obj := range store.List() {
		obj.(*corev1.Pod).Name = "b" // want `field Name is set`
	}
	found, _ := indexer.ByIndex("a", "b")
	for i := range found {
		pod, ok := found[i].(*corev1.Pod)
		if ok {
			pod.Name = "b" // want `field Name is set`
		}
	}
	found[0] = nil
	found = append(found, nil)
}
