package cache

import (
	"time"

	"github.com/tidings/tidings/clientgo"
)

// New calls [clientgo.NewController], which runs on Tidings' engine.
func New(c *Config) Controller { return clientgo.NewController(c) }

// NewReflector calls [clientgo.NewReflector], which runs on Tidings' engine. It returns a
// [clientgo.Reflector]: the type Reflector of this package is still client-go's, because watch
// error handlers take one.
func NewReflector(lw ListerWatcher, expectedType interface{}, store ReflectorStore, resyncPeriod time.Duration) *clientgo.Reflector {
	return clientgo.NewReflector(lw, expectedType, store, resyncPeriod)
}

// NewNamedReflector calls [clientgo.NewNamedReflector]. Like NewReflector, it returns a [clientgo.Reflector].
func NewNamedReflector(name string, lw ListerWatcher, expectedType interface{}, store ReflectorStore, resyncPeriod time.Duration) *clientgo.Reflector {
	return clientgo.NewNamedReflector(name, lw, expectedType, store, resyncPeriod)
}

// NewReflectorWithOptions calls [clientgo.NewReflectorWithOptions]. Like NewReflector, it returns a
// [clientgo.Reflector].
func NewReflectorWithOptions(lw ListerWatcher, expectedType interface{}, store ReflectorStore, options ReflectorOptions) *clientgo.Reflector {
	return clientgo.NewReflectorWithOptions(lw, expectedType, store, options)
}

// NewNamespaceKeyedIndexerAndReflector calls [clientgo.NewNamespaceKeyedIndexerAndReflector]. Like
// NewReflector, it returns a [clientgo.Reflector].
func NewNamespaceKeyedIndexerAndReflector(lw ListerWatcher, expectedType interface{}, resyncPeriod time.Duration) (Indexer, *clientgo.Reflector) {
	return clientgo.NewNamespaceKeyedIndexerAndReflector(lw, expectedType, resyncPeriod)
}
