package main

import (
	"context"
	"errors"
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
	changes, counts := cluster.NewNews(), cluster.NewNews()
	_, err = services.AddHandler(tidings.HandlerFuncs[*corev1.Service]{
		Add:    func(s *corev1.Service, _ bool) { changes.Say("added %s", s.Name) },
		Update: func(_, s *corev1.Service) { changes.Say("changed %s", s.Name) },
		Delete: func(gone tidings.Tombstone[*corev1.Service]) { changes.Say("deleted %s", gone.Key.Name) },
	}, tidings.HandlerOptions{Name: "changes"})
	if err != nil {
		return err
	}
	events := 0
	_, err = services.AddHandler(tidings.DeltaFunc[*corev1.Service](func(tidings.Delta[*corev1.Service]) {
		events++ // a handler is called for one change at a time
		counts.Say("  event %d", events)
	}), tidings.HandlerOptions{Name: "counter"})
	if err != nil {
		return err
	}
	if err := factory.Start(ctx); err != nil {
		return err
	}
	if err := factory.WaitForSyncFailFast(ctx); err != nil {
		return err
	}
	next := func() error { return errors.Join(changes.Print(ctx), counts.Print(ctx)) }
	if err := next(); err != nil {
		return err
	}
	if err := c.Play(ctx, next); err != nil {
		return err
	}
	for _, s := range services.Lister().Namespace(c.Namespace).List() {
		fmt.Println("the lister has", s.Name)
	}
	return nil
}
