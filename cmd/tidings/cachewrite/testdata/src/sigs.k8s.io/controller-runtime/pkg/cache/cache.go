// Package cache has the shape of the real one.
package cache

import "sigs.k8s.io/controller-runtime/pkg/client"

type ByObject struct{ UnsafeDisableDeepCopy *bool }

type Options struct {
	ByObject                     map[client.Object]ByObject
	DefaultUnsafeDisableDeepCopy *bool
}
