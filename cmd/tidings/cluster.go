package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/kube"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
)

// connect returns the client configuration that the flags select, and a discovery client for it. It sends nothing yet.
func connect(cluster *kube.Flags, logger *slog.Logger) (*rest.Config, discovery.ServerResourcesInterface, error) {
	if err := cluster.CheckFlags(); err != nil {
		return nil, nil, cli.Usage(err)
	}
	config, err := cluster.RESTConfig(logger)
	if err != nil {
		return nil, nil, err
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	return config, client, nil
}

// find discovers the server's resources and resolves the arguments among them.
func find(ctx context.Context, client discovery.ServerResourcesInterface, args []string, logger *slog.Logger) ([]resources.Target, error) {
	catalog, err := discover(ctx, client, logger)
	if err != nil {
		return nil, err
	}
	found, err := catalog.ResolveTargets(args...)
	return found, cli.Usage(err)
}

// findResources is find for commands that take no single objects.
func findResources(ctx context.Context, client discovery.ServerResourcesInterface, args []string, logger *slog.Logger) ([]resources.Resource, error) {
	catalog, err := discover(ctx, client, logger)
	if err != nil {
		return nil, err
	}
	found, err := catalog.Resolve(args...)
	return found, cli.Usage(err)
}

// discover is resources.Discover, but it returns when ctx ends, whatever holds the request up:
// neither client-go's discovery nor a credential plugin named in the kubeconfig gets ctx.
func discover(ctx context.Context, client discovery.ServerResourcesInterface, logger *slog.Logger) (*resources.Catalog, error) {
	type answer struct {
		catalog *resources.Catalog
		err     error
	}
	answered := make(chan answer, 1)
	go func() {
		catalog, err := resources.Discover(client, logger)
		answered <- answer{catalog, err}
	}()
	select {
	case a := <-answered:
		if a.err != nil && ctx.Err() != nil {
			return nil, interrupted(ctx)
		}
		return a.catalog, a.err
	case <-ctx.Done():
		return nil, interrupted(ctx)
	}
}

// errNoDiscovery is the error when discovery has not completed.
var errNoDiscovery = errors.New("the server has not answered discovery")

// interrupted returns the error when ctx ended before discovery completed.
func interrupted(ctx context.Context) error {
	return fmt.Errorf("%w: %w", context.Cause(ctx), errNoDiscovery)
}
