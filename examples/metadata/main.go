// Command metadata watches only the metadata of Services: the server sends names, labels and
// owners, which is enough for many controllers and takes a fraction of the memory.
package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/examples/internal/cluster"
)

func main() { cluster.Main(run, nil) }

func run(ctx context.Context, c *cluster.Cluster) error {
	factory, err := tidings.NewFactory(c.Config, tidings.Options{})
	if err != nil {
		return err
	}
	defer factory.Shutdown(context.WithoutCancel(ctx))
	services, err := tidings.Informer[*metav1.PartialObjectMetadata](factory, tidings.Scope{
		Resource: corev1.SchemeGroupVersion.WithResource("services"), Namespaces: []string{c.Namespace},
		Trim: tidings.Trim{tidings.ManagedFields},
	})
	if err != nil {
		return err
	}
	news := cluster.NewNews()
	_, err = services.AddHandler(tidings.DeltaFunc[*metav1.PartialObjectMetadata](func(d tidings.Delta[*metav1.PartialObjectMetadata]) {
		news.Say("%v %s %v", d.Type, d.Key.Name, d.Object.Labels)
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
	for s := range services.Lister().Labels(labels.SelectorFromSet(labels.Set{"app": "web"})).All() {
		fmt.Println("labeled app=web:", s.Kind, s.Name)
	}
	return nil
}
