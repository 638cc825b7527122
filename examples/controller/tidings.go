package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/examples/internal/cluster"
	"github.com/tidings/tidings/source"
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
	informer, err := tidings.NewInformer(services, tidings.InformerOptions[*corev1.Service]{Name: "services"})
	if err != nil {
		return err
	}
	news := cluster.NewNews()
	_, err = informer.AddHandler(tidings.HandlerFuncs[*corev1.Service]{
		Add: func(s *corev1.Service, _ bool) { news.Say("added %s", s.Name) },
		Update: func(old, new *corev1.Service) {
			news.Say("changed %s: %s → %s", new.Name, old.Spec.ExternalName, new.Spec.ExternalName)
		},
		Delete: func(gone tidings.Tombstone[*corev1.Service]) { news.Say("deleted %s", gone.Key.Name) },
	}, tidings.HandlerOptions{})
	if err != nil {
		return err
	}
	if err := informer.Start(ctx); err != nil {
		return err
	}
	defer informer.Stop(context.WithoutCancel(ctx))
	next := func() error { return news.Print(ctx) }
	if err := next(); err != nil {
		return err
	}
	if err := c.Play(ctx, next); err != nil {
		return err
	}
	for _, s := range informer.Lister().List() {
		fmt.Println("in the store:", s.Name, s.Spec.ExternalName)
	}
	return nil
}
