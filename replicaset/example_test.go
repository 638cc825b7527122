package replicaset_test

import (
	"context"
	"log/slog"
	"os"
	"os/signal"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/replicaset"
)

// Both controllers in one process, on one cache of pods, until an interrupt.
func Example() {
	config, err := rest.InClusterConfig()
	if err != nil {
		slog.Error("no cluster", "error", err)
		return
	}
	config.QPS = -1 // let the server decide how much is too much
	if err := run(config); err != nil {
		slog.Error("the controllers ended", "error", err)
	}
}

func run(config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory, err := tidings.NewFactory(config, tidings.Options{Logger: slog.Default()})
	if err != nil {
		return err
	}
	opts := replicaset.Options{Client: client, Controller: controller.Options{Workers: 5, Logger: slog.Default()}}
	sets, err := replicaset.NewReplicaSet(factory, opts)
	if err != nil {
		return err
	}
	old, err := replicaset.NewReplicationController(factory, opts)
	if err != nil {
		return err
	}
	manager := controller.NewManager(nil)
	manager.Add(sets, old)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := factory.Start(ctx); err != nil {
		return err
	}
	defer factory.Shutdown(context.Background())
	return manager.Run(ctx)
}
