package controlplane_test

import (
	"context"
	"fmt"
	"log"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings/tidingstest/controlplane"
)

// A program launches its own control plane, uses it, and leaves nothing behind. A test calls Start instead,
// which needs neither error handling nor Close.
func ExampleLaunch() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	plane, err := controlplane.Launch(ctx, controlplane.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := plane.Close(ctx); err != nil {
			log.Print(err)
		}
	}()
	client, err := kubernetes.NewForConfig(plane.Config())
	if err != nil {
		log.Print(err)
		return
	}
	namespaces, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Println(len(namespaces.Items), "namespaces; kubectl works too: --kubeconfig", plane.Kubeconfig())
}
