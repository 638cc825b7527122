package tidings

import (
	"errors"
	"fmt"

	"github.com/tidings/tidings/source"
)

// NewFactoryForClient is NewFactory over connections that the program has already, for example those of an http.Client of its own.
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

// Client returns the connections to the factory's API server, for sources that a program makes itself, as in SetSource. It is nil for a
// factory without one.
func (f *Factory) Client() *source.Client { return f.client }
