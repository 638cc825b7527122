package website

import (
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/tidings/tidings"
)

//go:embed crd.yaml
var manifest []byte

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// removeTime limits the removal of the definition.
const removeTime = 30 * time.Second

// Install installs the CustomResourceDefinition of Websites, and returns when the server serves
// them. remove deletes it, unless it existed before.
func Install(ctx context.Context, config *rest.Config) (remove func() error, err error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(manifest, &definition.Object); err != nil {
		return nil, err
	}
	remove = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), removeTime)
		defer cancel()
		return client.Resource(definitions).Delete(ctx, definition.GetName(), metav1.DeleteOptions{})
	}
	_, err = client.Resource(definitions).Create(ctx, definition, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		remove = func() error { return nil }
	case err != nil:
		return nil, err
	}
	if err := awaitServed(ctx, config); err != nil {
		return nil, errors.Join(err, remove())
	}
	return remove, nil
}

// awaitServed waits until Websites can be listed. An informer is all it takes: it retries while the
// server does not have the resource.
func awaitServed(ctx context.Context, config *rest.Config) error {
	factory, err := tidings.NewFactory(config, tidings.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer factory.Shutdown(context.WithoutCancel(ctx))
	if _, err := tidings.Informer[*metav1.PartialObjectMetadata](factory, tidings.Scope{Resource: Resource}); err != nil {
		return err
	}
	if err := factory.Start(ctx); err != nil {
		return err
	}
	return factory.WaitForSync(ctx)
}
