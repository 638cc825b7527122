package deaf

import (
	"testing"
	"time"

	"github.com/tidings/tidings/bench/internal/engine"
)

// TestRecovery lets each fault happen twice: Tidings comes back every time, and within the time
// that its backoff allows.
func TestRecovery(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds a fault")
	}
	for _, c := range Cases {
		t.Run(c.What, func(t *testing.T) {
			got, err := c.Measure(t, engine.Tidings, 2)
			if err != nil {
				t.Fatal(err)
			}
			if got.Times != 2 || got.Recovered != 2 || got.Longest > 3*time.Minute {
				t.Errorf("got %+v", got)
			}
		})
	}
}
