// Package handler has the shape of the real one.
package handler

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

type MapFunc func(context.Context, client.Object) []string

func EnqueueRequestsFromMapFunc(fn MapFunc) any { return nil }
