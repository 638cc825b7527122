//go:build clientgo_0_36

package clientgo

// newerTypes returns nothing: these resources came with client-go 0.37.
func newerTypes() []resourceType { return nil }
