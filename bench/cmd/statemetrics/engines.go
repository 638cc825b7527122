package main

import (
	"context"
	"fmt"
	"log/slog"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/source"
)

// engine is a way to run the informers.
type engine string

const (
	clientGo  engine = "client-go"
	throughUs engine = "through clientgo"
	native    engine = "Tidings"
	budgeted  engine = "Tidings, 32 MB budget"
)

var engines = []engine{clientGo, throughUs, native, budgeted}

const budget = 32 << 20

// start starts an informer for each resource, whose handler keeps m current, and returns when m has every object. The
// result keeps the informers alive.
func (e engine) start(ctx context.Context, config *rest.Config, resources []resource, m *metrics) (alive any, err error) {
	switch e {
	case clientGo:
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		return startFactory(ctx, informers.NewSharedInformerFactory(client, 0), resources, m)
	case throughUs:
		return startFactory(ctx, clientgo.NewSharedInformerFactory(config, 0), resources, m)
	case native:
		return startNative(ctx, config, tidings.Options{}, resources, m)
	case budgeted:
		return startNative(ctx, config, tidings.Options{MemoryBudget: budget}, resources, m)
	}
	return nil, fmt.Errorf("there is no engine %q", e)
}

// startFactory starts a factory that has client-go's interface.
func startFactory(ctx context.Context, factory informers.SharedInformerFactory, resources []resource, m *metrics) (any, error) {
	var handled []cache.InformerSynced
	for _, r := range resources {
		generic, err := factory.ForResource(r.GroupVersionResource)
		if err != nil {
			return nil, err
		}
		handler := cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { m.set(r, obj.(tidings.Object)) },
			UpdateFunc: func(_, obj any) { m.set(r, obj.(tidings.Object)) },
			DeleteFunc: func(obj any) {
				if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					obj = tombstone.Obj
				}
				m.delete(r, obj.(tidings.Object).GetUID())
			},
		}
		registration, err := generic.Informer().AddEventHandler(handler)
		if err != nil {
			return nil, err
		}
		handled = append(handled, registration.HasSynced)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), handled...) {
		return nil, context.Cause(ctx)
	}
	return factory, nil
}

// startNative starts a native factory.
func startNative(ctx context.Context, config *rest.Config, opts tidings.Options, resources []resource, m *metrics) (any, error) {
	opts.Logger = slog.New(slog.DiscardHandler)
	factory, err := tidings.NewFactory(config, opts)
	if err != nil {
		return nil, err
	}
	var handled []<-chan struct{}
	for _, r := range resources {
		example, err := scheme.Scheme.New(r.kind)
		if err != nil {
			return nil, err
		}
		inf, err := tidings.UnsharedInformer(factory, tidings.Scope{Resource: r.GroupVersionResource}, tidings.UnsharedOptions[tidings.Object]{
			Source: func(scope tidings.Scope, namespace string) (source.ListerWatcher[tidings.Object], error) {
				return source.NewHTTPLike(factory.Client(), scope.Source(namespace), example.(tidings.Object))
			},
		})
		if err != nil {
			return nil, err
		}
		synced := make(chan struct{})
		_, err = inf.AddHandler(tidings.HandlerFuncs[tidings.Object]{
			Add:    func(obj tidings.Object, _ bool) { m.set(r, obj) },
			Update: func(_, obj tidings.Object) { m.set(r, obj) },
			Delete: func(gone tidings.Tombstone[tidings.Object]) { m.delete(r, gone.Object.GetUID()) },
		}, tidings.HandlerOptions{OnSynced: func() { close(synced) }})
		if err != nil {
			return nil, err
		}
		handled = append(handled, synced)
	}
	if err := factory.Start(ctx); err != nil {
		return nil, err
	}
	if err := factory.WaitForSync(ctx); err != nil {
		return nil, err
	}
	for _, synced := range handled {
		<-synced
	}
	return factory, nil
}
