//go:build !eagerfolding

package memory

// Eager makes everything fold at once, for tests.
const Eager = false
