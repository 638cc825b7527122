// Command crd watches a custom resource that has a Go type: no generated client, no unstructured maps.
package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidings/tidings"
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
	// The resource has to be specified, because the type is in no scheme.
	websites, err := tidings.Informer[*website.Website](factory, tidings.Scope{Resource: website.Resource, Namespaces: []string{c.Namespace}})
	if err != nil {
		return err
	}
	news := cluster.NewNews()
	_, err = websites.AddHandler(tidings.HandlerFuncs[*website.Website]{
		Add: func(w *website.Website, _ bool) { news.Say("added %s at %s", w.Name, w.Spec.Host) },
		Update: func(old, new *website.Website) {
			news.Say("changed %s: %s → %s", new.Name, old.Spec.Host, new.Spec.Host)
		},
		Delete: func(gone tidings.Tombstone[*website.Website]) {
			news.Say("deleted %s, which was at %s", gone.Key.Name, gone.Object.Spec.Host)
		},
	}, tidings.HandlerOptions{})
	if err != nil {
		return err
	}
	if err := factory.Start(ctx); err != nil {
		return err
	}
	if err := factory.WaitForSyncFailFast(ctx); err != nil {
		return err
	}
	return play(ctx, c, websites, func() error { return news.Print(ctx) })
}

// play writes a Website, and reads its own write.
func play(ctx context.Context, c *cluster.Cluster, websites *tidings.SharedInformer[*website.Website], seen func() error) error {
	client, err := website.NewClient(c.Config, c.Namespace)
	if err != nil {
		return err
	}
	written, err := client.Create(ctx, website.New("blog", "blog.example.com"))
	if err != nil {
		return err
	}
	if err := websites.WaitFor(ctx, written); err != nil {
		return err
	}
	read, ok := websites.Get(tidings.Key{Namespace: c.Namespace, Name: "blog"})
	fmt.Println("the cache has what was just written:", ok && read.UID == written.UID)
	if err := seen(); err != nil {
		return err
	}
	if err := client.SetHost(ctx, "blog", "news.example.com"); err != nil {
		return err
	}
	if err := seen(); err != nil {
		return err
	}
	if err := client.Delete(ctx, "blog"); err != nil {
		return err
	}
	return seen()
}
