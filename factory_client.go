package tidings

import (
	"errors"
	"fmt"

	"github.com/tidings/tidings/source"
)

// NewFactoryForClient is like NewFactory, but uses the connections of an existing client, for
// example one made from an http.Client.
func NewFactoryForClient(client *source.Client, opts Options) (*Factory, error) {
	if client == nil {
		return nil, errors.New("new factory: the client is nil; make one with source.NewClient")
	}
	if err := checkBudget("Options", opts.MemoryBudget); err != nil {
		return nil, fmt.Errorf("new factory: %w", err)
	}
	f := NewSourceFactory(opts)
	f.client, f.cluster = client, clusterOf(client, f.opts)
	return f, nil
}

// Client returns the client for the factory's API server, for sources that a program makes itself,
// as in SetSource. It is nil if the factory has no API server.
func (f *Factory) Client() *source.Client { return f.client }
