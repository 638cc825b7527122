// Package event has the shape of the real one.
package event

import "sigs.k8s.io/controller-runtime/pkg/client"

type UpdateEvent struct{ ObjectOld, ObjectNew client.Object }
