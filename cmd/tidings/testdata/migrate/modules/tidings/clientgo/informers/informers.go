// Package informers has the shape of the real one, for tests of what is changed in a program.
package informers

type SharedInformerFactory interface{ Start(stop <-chan struct{}) }

type SharedInformerOption func()

func NewSharedInformerFactory(client any, resync int) SharedInformerFactory { return nil }

func NewSharedInformerFactoryWithOptions(client any, resync int, options ...SharedInformerOption) SharedInformerFactory {
	return nil
}

func WithNamespace(string) SharedInformerOption { return nil }
