package engine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/bench/internal/server"
	"github.com/tidings/tidings/clientgo"
)

// Transform names a transform of an informer; empty means none.
type Transform string

// The transforms. Each may write to its argument, as client-go allows.
const (
	// StripManagedFields is the usual one.
	StripManagedFields Transform = "managed fields"
	// KeepIdentity removes all but the identity, the labels and the owners.
	KeepIdentity Transform = "identity only"
	// KeepAll returns its argument.
	KeepAll Transform = "nothing"
)

// Transforms are all of them.
var Transforms = []Transform{StripManagedFields, KeepIdentity, KeepAll}

// apply is a cache.TransformFunc.
func (t Transform) apply(obj any) (any, error) {
	o, err := meta.Accessor(obj)
	if err != nil || t == KeepAll {
		return obj, err
	}
	o.SetManagedFields(nil)
	if t == StripManagedFields {
		return obj, nil
	}
	o.SetAnnotations(nil)
	switch o := obj.(type) {
	case *corev1.Pod:
		o.Spec, o.Status = corev1.PodSpec{}, corev1.PodStatus{}
	case *unstructured.Unstructured:
		delete(o.Object, "spec")
		delete(o.Object, "status")
	}
	return obj, nil
}

// listWatchInformers returns a function that makes informers over functions which call a client, as
// many programs have them. newInformer is the constructor of an engine.
func listWatchInformers(c Config, newInformer func(cache.ListerWatcher, runtime.Object, cache.SharedIndexInformerOptions) cache.SharedIndexInformer) (maker, error) {
	lw, example, err := c.listWatch()
	if err != nil {
		return nil, err
	}
	options := cache.SharedIndexInformerOptions{Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}}
	return func(string) cache.SharedIndexInformer { return newInformer(lw, example, options) }, nil
}

// listWatch returns functions that list and watch all pods.
func (c Config) listWatch() (cache.ListerWatcher, runtime.Object, error) {
	config := c.rest()
	if c.Encoding == server.JSON {
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, nil, err
		}
		pods := client.Resource(c.Corpus.Kind().Resource)
		return listWatchOf(pods.List, pods.Watch), &unstructured.Unstructured{}, nil
	}
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("a client: %w", err)
	}
	pods := client.CoreV1().Pods(metav1.NamespaceAll)
	return listWatchOf(pods.List, pods.Watch), &corev1.Pod{}, nil
}

func listWatchOf[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error), watch func(context.Context, metav1.ListOptions) (watch.Interface, error)) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return list(ctx, opts) },
		WatchFuncWithContext: watch,
	}
}

// throughDynamic returns a maker of Tidings' informers of unstructured objects behind client-go's interfaces.
func throughDynamic(c Config) maker {
	factory := clientgo.NewDynamicSharedInformerFactory(c.rest(), 0)
	return func(string) cache.SharedIndexInformer {
		return factory.ForResource(c.Corpus.Kind().Resource).Informer()
	}
}
