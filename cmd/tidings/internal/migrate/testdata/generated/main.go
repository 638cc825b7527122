package main

import (
	"context"
	"time"

	"example.com/shop/client/informers/externalversions"
	"example.com/shop/client/versioned"
	"example.com/shop/controller"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func newFactory(config *rest.Config) (externalversions.SharedInformerFactory, error) {
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	options := []externalversions.SharedInformerOption{
		externalversions.WithNamespace("shop"),
		externalversions.WithTweakListOptions(func(opts *metav1.ListOptions) { opts.LabelSelector = "app=web" }),
	}
	return externalversions.NewSharedInformerFactoryWithOptions(client, time.Minute, options...), nil
}

func main() {
	config, err := rest.InClusterConfig()
	if err != nil {
		panic(err)
	}
	factory, err := newFactory(config)
	if err != nil {
		panic(err)
	}
	count := controller.New(factory)
	factory.StartWithContext(context.Background())
	factory.WaitForCacheSyncWithContext(context.Background())
	println(count())
}
