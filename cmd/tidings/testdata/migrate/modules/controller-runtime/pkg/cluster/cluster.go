// Package cluster has the shape of the real one, for tests of what is changed in a program.
package cluster

import "sigs.k8s.io/controller-runtime/pkg/cache"

type Options struct {
	Scheme   any
	NewCache cache.NewCacheFunc
}

type Option func(*Options)

func New(config any, options ...Option) (any, error) { return nil, nil }
