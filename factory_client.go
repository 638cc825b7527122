package tidings

import "github.com/tidings/tidings/source"

// Client returns the connections to the factory's API server, for sources that a program makes itself, as in SetSource. It is nil for a
// factory without one.
func (f *Factory) Client() *source.Client { return f.client }
