// Package controllerutil has the shape of the real one.
package controllerutil

import "sigs.k8s.io/controller-runtime/pkg/client"

func AddFinalizer(o client.Object, finalizer string) bool          { return false }
func SetControllerReference(owner, controlled client.Object) error { return nil }
