package main

import (
	"context"
	"errors"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/examples/internal/cluster"
	"github.com/tidings/tidings/examples/internal/website"
	"github.com/tidings/tidings/workqueue"
)

func withTidings(ctx context.Context, c *cluster.Cluster, services services, news cluster.News) error {
	factory, err := tidings.NewFactory(c.Config, tidings.Options{})
	if err != nil {
		return err
	}
	defer factory.Shutdown(context.WithoutCancel(ctx))
	websites, err := tidings.Informer[*website.Website](factory, tidings.Scope{Resource: website.Resource, Namespaces: []string{c.Namespace}})
	if err != nil {
		return err
	}
	queue := workqueue.New(workqueue.Options[tidings.Key]{})
	_, err = websites.AddHandler(tidings.KeyHandler[*website.Website](queue.Add), tidings.HandlerOptions{})
	if err != nil {
		return err
	}
	if err := factory.Start(ctx); err != nil {
		return err
	}
	if err := factory.WaitForSyncFailFast(ctx); err != nil {
		return err
	}
	reconcile := func(key tidings.Key) (string, error) {
		site, ok := websites.Get(key)
		if !ok {
			return services.remove(ctx, key.Name)
		}
		return services.ensure(ctx, key.Name, site.Spec.Host)
	}
	for {
		key, err := queue.Get(ctx)
		switch {
		case errors.Is(err, context.Canceled):
			return nil
		case err != nil:
			return err
		}
		if done, err := reconcile(key); err != nil {
			news.Say("%s: retrying later: %v", key.Name, err)
			queue.AddRateLimited(key)
		} else {
			news.Say("%s", done)
			queue.Forget(key)
		}
		queue.Done(key)
	}
}
