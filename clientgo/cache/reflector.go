package cache

import (
	"time"

	"github.com/tidings/tidings/clientgo"
)

// New is [clientgo.NewController], with Tidings' engine.
func New(c *Config) Controller { return clientgo.NewController(c) }

// NewReflector is [clientgo.NewReflector], with Tidings' engine. Its result is a type of its own: the type Reflector of this package is client-go's,
// because watch error handlers are given one.
func NewReflector(lw ListerWatcher, expectedType interface{}, store ReflectorStore, resyncPeriod time.Duration) *clientgo.Reflector {
	return clientgo.NewReflector(lw, expectedType, store, resyncPeriod)
}

// NewNamedReflector is [clientgo.NewNamedReflector], with Tidings' engine and a result like NewReflector's.
func NewNamedReflector(name string, lw ListerWatcher, expectedType interface{}, store ReflectorStore, resyncPeriod time.Duration) *clientgo.Reflector {
	return clientgo.NewNamedReflector(name, lw, expectedType, store, resyncPeriod)
}

// NewReflectorWithOptions is [clientgo.NewReflectorWithOptions], with Tidings' engine and a result like NewReflector's.
func NewReflectorWithOptions(lw ListerWatcher, expectedType interface{}, store ReflectorStore, options ReflectorOptions) *clientgo.Reflector {
	return clientgo.NewReflectorWithOptions(lw, expectedType, store, options)
}

// NewNamespaceKeyedIndexerAndReflector is [clientgo.NewNamespaceKeyedIndexerAndReflector], with Tidings' engine and a result like NewReflector's.
func NewNamespaceKeyedIndexerAndReflector(lw ListerWatcher, expectedType interface{}, resyncPeriod time.Duration) (Indexer, *clientgo.Reflector) {
	return clientgo.NewNamespaceKeyedIndexerAndReflector(lw, expectedType, resyncPeriod)
}
