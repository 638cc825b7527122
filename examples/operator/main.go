// Command operator maintains a Service for every Website, a custom resource, and reports it in the
// Website's status. It reverts foreign changes of the Service, and the Service is deleted with its
// Website.
//
// Package controller does what the example workqueue does by hand: workers, retries, timeouts, and
// no reconcile before the caches have seen the writes of the previous one.
package main

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/examples/internal/cluster"
	"github.com/tidings/tidings/examples/internal/website"
)

func main() { cluster.Main(run, nil) }

func run(ctx context.Context, c *cluster.Cluster) (err error) {
	remove, err := website.Install(ctx, c.Config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	factory, err := tidings.NewFactory(c.Config, tidings.Options{})
	if err != nil {
		return err
	}
	defer factory.Shutdown(context.WithoutCancel(ctx))
	o, err := newOperator(c, factory)
	if err != nil {
		return err
	}
	sites := controller.New("websites", o.reconcile, controller.Options{})
	// Run returns the errors of these calls too.
	_ = controller.WatchKeys(sites, o.websites)
	_ = controller.Watch(sites, o.services, controller.Owner[*corev1.Service](o.websites, website.Kind.GroupKind()))
	gone := cluster.NewNews()
	_, err = o.services.AddHandler(tidings.HandlerFuncs[*corev1.Service]{
		Delete: func(t tidings.Tombstone[*corev1.Service]) { gone.Say("%s: the service is gone", t.Key.Name) },
	}, tidings.HandlerOptions{})
	if err != nil {
		return err
	}
	if err := factory.Start(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- sites.Run(ctx) }()
	err = o.play(ctx, gone, ended)
	cancel()
	return errors.Join(err, <-ended)
}

// newOperator returns an operator with informers of the factory.
func newOperator(c *cluster.Cluster, factory *tidings.Factory) (*operator, error) {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	client, err := website.NewClient(c.Config, c.Namespace)
	if err != nil {
		return nil, err
	}
	own := []string{c.Namespace}
	websites, err := tidings.Informer[*website.Website](factory, tidings.Scope{Resource: website.Resource, Namespaces: own})
	if err != nil {
		return nil, err
	}
	services, err := tidings.Informer[*corev1.Service](factory, tidings.Scope{Namespaces: own})
	return &operator{
		websites: websites, services: services, websiteClient: client, serviceClient: clientset.CoreV1().Services(c.Namespace), news: cluster.NewNews(),
	}, err
}
