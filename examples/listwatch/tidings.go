package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

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
	list, err := services.List(ctx, source.ListOptions[*corev1.Service]{}, func(s *corev1.Service) error {
		fmt.Println("listed", s.Name, s.Spec.ExternalName)
		return nil
	})
	if err != nil {
		return err
	}
	stream, err := services.Watch(ctx, source.WatchOptions[*corev1.Service]{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return err
	}
	defer stream.Close()
	return c.Play(ctx, func() error { return printNext(stream) })
}

// printNext prints the next event that is not a bookmark.
func printNext(stream source.Stream[*corev1.Service]) error {
	for {
		events, err := stream.Next(nil)
		if err != nil {
			return err
		}
		for _, event := range events {
			if event.Type != source.Bookmark {
				fmt.Println(event.Type, event.Object.Name, event.Object.Spec.ExternalName)
				return nil
			}
		}
	}
}
