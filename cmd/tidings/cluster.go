package main

import (
	"context"
	"fmt"
	"log/slog"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/kube"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
)

// connect returns the configuration that the flags name, and a client that asks the cluster what it offers. It sends
// nothing yet.
func connect(cluster *kube.Flags, logger *slog.Logger) (*rest.Config, discovery.ServerResourcesInterfaceWithContext, error) {
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

// find asks the server what it offers and finds the resources among that.
func find(ctx context.Context, client discovery.ServerResourcesInterfaceWithContext, args []string, logger *slog.Logger) ([]resources.Resource, error) {
	catalog, err := resources.Discover(ctx, client, logger)
	if err != nil {
		return nil, err
	}
	found, err := catalog.Resolve(args...)
	return found, cli.Usage(err)
}
