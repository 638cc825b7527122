// Package dynamicinformer has the shape of the real one, for tests of what is changed in a program.
package dynamicinformer

func NewDynamicSharedInformerFactory(client any, resync int) any { return nil }
