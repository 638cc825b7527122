// Command small-client-go lists pods with client-go and exits. Its size and run time are measured.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func main() {
	config := &rest.Config{Host: os.Args[1]}
	config.TLSClientConfig.CAFile = os.Args[2]
	config.ContentType = "application/vnd.kubernetes.protobuf"
	if err := run(context.Background(), config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, config *rest.Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		return errors.New("not synced")
	}
	fmt.Println(len(pods.GetStore().List()), "pods")
	cancel()
	factory.Shutdown()
	return nil
}
