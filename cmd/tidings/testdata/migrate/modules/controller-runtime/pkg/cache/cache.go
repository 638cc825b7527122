// Package cache has the shape of the real one, for tests of what is changed in a program.
package cache

type Options struct{ NewInformer func(any) any }

type NewCacheFunc func(config any) any

func New(config any) any { return nil }
