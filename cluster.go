package tidings

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tidings/tidings/source"
)

// clusterIDTimeout limits how long finding out the cluster's identity may take.
const clusterIDTimeout = 10 * time.Second

// clusterIdentity finds out, once for all informers of a factory, which cluster its objects belong to.
type clusterIdentity struct {
	client *source.Client
	logger *slog.Logger

	sem   chan struct{} // a lock that guards known; holds a value while locked
	known string
}

// clusterOf returns a function that identifies the cluster: by Options.Files.ClusterID, or else by asking
// the server. It returns nil if there is neither.
func clusterOf(client *source.Client, opts Options) func(context.Context) (string, error) {
	switch {
	case opts.Files.ClusterID != "":
		return func(context.Context) (string, error) { return "given " + opts.Files.ClusterID, nil }
	case client == nil:
		return nil
	}
	c := &clusterIdentity{client: client, logger: opts.Logger, sem: make(chan struct{}, 1)}
	return c.get
}

func (c *clusterIdentity) get(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterIDTimeout)
	defer cancel()
	select {
	case c.sem <- struct{}{}:
		defer func() { <-c.sem }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if c.known != "" {
		return c.known, nil
	}
	id, ok, err := c.client.ClusterID(ctx)
	switch {
	case err != nil:
		return "", fmt.Errorf("identify the cluster: %w", err)
	case ok:
		c.known = "uid " + id
	default:
		c.known = "address " + c.client.Address()
		c.logInfo("namespace kube-system cannot be read: saved objects are identified by the server's address and certificate authority instead of the uid of that namespace",
			"address", c.client.Address())
	}
	return c.known, nil
}

// logInfo logs a message. It drops a panic in the log handler, which is user code and must not crash the program.
func (c *clusterIdentity) logInfo(message string, args ...any) {
	defer func() { _ = recover() }()
	c.logger.Info(message, args...)
}
