// Command small-tidings lists pods with Tidings and exits. Its size and run time are measured.
package main

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
)

func main() {
	config := &rest.Config{Host: os.Args[1]}
	config.TLSClientConfig.CAFile = os.Args[2]
	if err := run(context.Background(), config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, config *rest.Config) error {
	factory, err := tidings.NewFactory(config, tidings.Options{})
	if err != nil {
		return err
	}
	pods, err := tidings.Informer[*corev1.Pod](factory, tidings.Scope{})
	if err != nil {
		return err
	}
	if err := factory.Start(ctx); err != nil {
		return err
	}
	if err := factory.WaitForSync(ctx); err != nil {
		return err
	}
	fmt.Println(pods.Snapshot().Len(), "pods")
	return factory.Shutdown(ctx)
}
