package ondemand

import "testing"

// HoldEagerly makes readers hold all bodies for a second after each request, until the test ends.
func HoldEagerly(t *testing.T) {
	eager.Store(true)
	t.Cleanup(func() { eager.Store(false) })
}
