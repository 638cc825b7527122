package main

import (
	"context"
	"testing"
	"time"

	v1 "example.com/shop/api/v1"
	"example.com/shop/client/informers/externalversions"
	"example.com/shop/client/versioned"
	"example.com/shop/controller"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/tidingstest"
)

func widget(namespace, name, app string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "spec": map[string]any{"size": int64(3)},
		"metadata": map[string]any{"namespace": namespace, "name": name, "labels": map[string]any{"app": app}},
	}}
}

func TestFactory(t *testing.T) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	widgets := v1.SchemeGroupVersion.WithResource("widgets")
	server.AddResource(widgets, "Widget")
	server.Create(widget("shop", "one", "web"))
	server.Create(widget("shop", "two", "db"))
	server.Create(widget("other", "three", "web"))
	factory, err := newFactory(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	count := controller.New(factory)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer factory.Shutdown()
	defer cancel()
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	if n := count(); n != 1 {
		t.Errorf("%d widgets", n)
	}
	if _, ours := clientgo.NativeInformer(factory.Example().V1().Widgets().Informer()); !ours {
		t.Error("the informer runs on client-go's engine")
	}
	generic, err := factory.ForResource(widgets)
	if err != nil {
		t.Fatal(err)
	}
	if obj, err := generic.Lister().ByNamespace("shop").Get("one"); err != nil || obj.(*v1.Widget).Spec.Size != 3 {
		t.Errorf("the lister finds %v, %v", obj, err)
	}
}

func TestOptions(t *testing.T) {
	factory := externalversions.NewFilteredSharedInformerFactory((*versioned.Clientset)(nil), 0, "shop", nil)
	if _, ours := clientgo.NativeInformer(factory.Example().V1().Widgets().Informer()); ours {
		t.Error("an informer over no client runs on our engine")
	}
}
