// Package manager has the shape of the real one, for tests of what is changed in a program.
package manager

import "sigs.k8s.io/controller-runtime/pkg/cache"

type Options struct {
	LeaderElection   bool
	LeaderElectionID string
	NewCache         cache.NewCacheFunc
	Cache            cache.Options
}

func New(config any, options Options) (any, error) { return nil, nil }
