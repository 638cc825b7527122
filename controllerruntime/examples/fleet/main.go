// Fleet is an operator for a custom resource, with owned objects, field indexes and a finalizer. It
// is written for controller-runtime; one option runs its cache on Tidings' engine.
//
//	kubectl apply -f api/crd.yaml
//	kubectl create configmap register
//	go run ./examples/fleet
package main

import (
	"context"
	"os"

	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/controllerruntime/examples/fleet/api"
	"github.com/tidings/tidings/controllerruntime/examples/fleet/controller"
)

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		ctrl.Log.Error(err, "The operator has ended")
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	if err := api.AddToScheme(scheme.Scheme); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		NewCache: tidingsruntime.NewCache,
	})
	if err != nil {
		return err
	}
	r := &controller.Reconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme(), RegisterNamespace: "default"}
	if err := r.SetupWithManager(ctx, mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
