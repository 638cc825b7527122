// Package v1 has the shape of the real one, for tests of what is changed in a program.
package v1

func NewPodInformerWithOptions(client any, namespace string, options any) any { return nil }

func NewPodInformer(client any, namespace string, resync int) any { return nil }
