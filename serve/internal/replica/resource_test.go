package replica

import "testing"

// TestNotReadyBeforeDiscovery: a replica that has not asked the API server for its resources yet is not ready, and one
// whose resource does not exist is.
func TestNotReadyBeforeDiscovery(t *testing.T) {
	r := NewResource("pods", Options{})
	if r.Problem() == nil {
		t.Error("it is ready before it has looked for its resource")
	}
	r.missing.Store(true)
	if err := r.Problem(); err != nil {
		t.Errorf("a resource that does not exist: %v", err)
	}
}
