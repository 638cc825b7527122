//go:build clientgo_0_36

package clientgo

// newerTypes returns nothing: these resources are new in client-go 0.37.
func newerTypes() []resourceType { return nil }
