// Package cache has the shape of the real one, for tests of what is changed in a program.
package cache

type ResourceEventHandlerFuncs struct{ AddFunc func(any) }

type Store interface{ List() []any }

type Indexers map[string]func(any) ([]string, error)

type SharedIndexInformer interface{ GetStore() Store }

func NewSharedIndexInformer(lw, example any, resync int, indexers Indexers) SharedIndexInformer {
	return nil
}

func NewListWatchFromClient(client any, resource string) any { return nil }

func MetaNamespaceKeyFunc(any) (string, error) { return "", nil }

type Reflector struct{}

func NewReflector(lw, example any, store Store, resync int) *Reflector { return nil }

func ShutDownEventHandler(informer any) error { return nil }

// ListWatch has functions of the program.
type ListWatch struct{ ListFunc func() any }
