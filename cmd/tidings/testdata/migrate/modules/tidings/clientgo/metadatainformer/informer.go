// Package metadatainformer has the shape of the real one, for tests of what is changed in a program.
package metadatainformer

func NewSharedInformerFactory(client any, resync int) any { return nil }
