// Command production is a controller as one deploys it: a custom resource, owned objects, a finalizer, a status with
// conditions, leader election, metrics, health checks and flags. Install crd.yaml and rbac.yaml, and run it in the
// cluster, or outside with a kubeconfig.
package main

import (
	"context"
	"log"

	"github.com/tidings/tidings/operator"
)

func main() {
	operator.Main("greetings", func(op *operator.Operator) error {
		return addTo(op, func(_ context.Context, name string) error { log.Println("goodbye,", name); return nil })
	})
}
