package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/examples/internal/cluster"
)

func withTidings(ctx context.Context, c *cluster.Cluster) error {
	factory, err := tidings.NewFactory(c.Config, tidings.Options{})
	if err != nil {
		return err
	}
	defer factory.Shutdown(context.WithoutCancel(ctx))
	services, err := tidings.Informer[*corev1.Service](factory, tidings.Scope{Namespaces: []string{c.Namespace}})
	if err != nil {
		return err
	}
	byHost := services.AddIndex("host", func(s *corev1.Service) []string { return []string{host(s)} })
	news := cluster.NewNews()
	_, err = services.AddHandler(tidings.DeltaFunc[*corev1.Service](func(d tidings.Delta[*corev1.Service]) {
		at := host(d.Object)
		news.Say("%s: %d at %s", d.Key.Name, services.Snapshot().Count(byHost, at), at)
	}), tidings.HandlerOptions{})
	if err != nil {
		return err
	}
	if err := factory.Start(ctx); err != nil {
		return err
	}
	next := func() error { return news.Print(ctx) }
	if err := next(); err != nil {
		return err
	}
	if err := c.Play(ctx, next); err != nil {
		return err
	}
	for s := range byHost.All("www") {
		fmt.Println("at www:", s.Name)
	}
	return nil
}
