// Command workqueue is a controller written by hand: an informer puts the keys of Websites, a
// custom resource, into a work queue, and a worker takes them from it and maintains a Service for
// each Website.
package main

import (
	"context"
	"errors"

	"github.com/tidings/tidings/examples/internal/cluster"
	"github.com/tidings/tidings/examples/internal/website"
)

func main() { cluster.Main(withWebsites(withTidings), withWebsites(withClientGo)) }

// controllerFunc runs the controller until ctx ends. It reports to news what it has done.
type controllerFunc func(ctx context.Context, c *cluster.Cluster, services services, news cluster.News) error

// withWebsites turns a controller into an example: it installs the custom resource, runs the
// controller, and gives it something to do.
func withWebsites(controller controllerFunc) cluster.Example {
	return func(ctx context.Context, c *cluster.Cluster) (err error) {
		remove, err := website.Install(ctx, c.Config)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, remove()) }()
		websites, err := website.NewClient(c.Config, c.Namespace)
		if err != nil {
			return err
		}
		services, err := newServices(c)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		news, ended := cluster.NewNews(), make(chan error, 1)
		go func() { ended <- controller(ctx, c, services, news) }()
		err = play(ctx, websites, func() error { return news.PrintUnless(ctx, ended) })
		cancel()
		return errors.Join(err, <-ended)
	}
}

// play creates, changes and deletes a Website.
func play(ctx context.Context, websites *website.Client, seen func() error) error {
	if _, err := websites.Create(ctx, website.New("blog", "blog.example.com")); err != nil {
		return err
	}
	if err := seen(); err != nil {
		return err
	}
	if err := websites.SetHost(ctx, "blog", "news.example.com"); err != nil {
		return err
	}
	if err := seen(); err != nil {
		return err
	}
	if err := websites.Delete(ctx, "blog"); err != nil {
		return err
	}
	return seen()
}
