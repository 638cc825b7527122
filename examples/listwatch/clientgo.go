package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings/clientgo/cache"
	"github.com/tidings/tidings/examples/internal/cluster"
)

func withClientGo(ctx context.Context, c *cluster.Cluster) error {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	services := cache.NewListWatchFromClient(clientset.CoreV1().RESTClient(), "services", c.Namespace, fields.Everything())
	list, err := services.ListWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, s := range list.(*corev1.ServiceList).Items {
		fmt.Println("listed", s.Name, s.Spec.ExternalName)
	}
	w, err := services.WatchWithContext(ctx, metav1.ListOptions{ResourceVersion: list.(*corev1.ServiceList).ResourceVersion})
	if err != nil {
		return err
	}
	defer w.Stop()
	return c.Play(ctx, func() error {
		select {
		case event := <-w.ResultChan():
			s, ok := event.Object.(*corev1.Service)
			if !ok {
				return fmt.Errorf("the watch ended: %v", event)
			}
			fmt.Println(event.Type, s.Name, s.Spec.ExternalName)
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}
