// Package engine runs the informers that are compared, each over the same server: client-go's, Tidings', and a reader
// of the bytes that decodes nothing, as the floor that neither can go below.
//
// Each of them holds all pods, with one index by node and a handler that tells an Observer.
package engine

import (
	"context"
	"fmt"

	"github.com/tidings/tidings/bench/internal/server"
)

// Name names an engine.
type Name string

// The engines.
const (
	ClientGo Name = "client-go"
	Tidings  Name = "tidings"
	// Bytes reads what the server sends, keeps the bytes of the initial list, and decodes nothing.
	Bytes Name = "bytes"
)

// Config says what an engine runs on.
type Config struct {
	Host string // the server, as in rest.Config
	// Encoding decides the Go type: typed pods for Protobuf, unstructured ones for JSON.
	Encoding server.Encoding
	// NoGuard turns Tidings' mutation guard off. client-go's is off unless the process was started with
	// KUBE_CACHE_MUTATION_DETECTOR=true.
	NoGuard bool
}

// Engine is a running informer. Its methods are called from one goroutine.
type Engine interface {
	// AddHandlers adds n handlers that do next to nothing, and returns when they have been told of all pods.
	AddHandlers(ctx context.Context, n int) error
	// Stop ends the informer and waits for it.
	Stop() error
}

// Start starts the engine. It does not wait for the initial list; the observer does.
func Start(ctx context.Context, name Name, c Config, o *Observer) (Engine, error) {
	switch name {
	case ClientGo:
		return startClientGo(ctx, c, o)
	case Tidings:
		if c.Encoding == server.JSON {
			return startTidings(ctx, c, o, unstructuredNode)
		}
		return startTidings(ctx, c, o, podNode)
	case Bytes:
		return startBytes(ctx, c, o)
	default:
		return nil, fmt.Errorf("there is no engine %q", name)
	}
}
