package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/tidings/tidings/bench/internal/server"
)

const (
	churnSamples = 10
	churnPoll    = 10 * time.Millisecond
)

// churn samples the size of the heap ten times during the events. It must not grow, because the number of live pods
// stays the same.
func (r *run) churn(ctx context.Context) error {
	ticks := time.NewTicker(churnPoll)
	defer ticks.Stop()
	stop := r.observer.Record(0, 0)
	defer stop()
	done := make(chan error, 1)
	go func() { // ends with the phase
		_, err := r.play(ctx, server.Churn)
		done <- err
	}()
	first := r.plan.Last[server.Relist]
	for step, next := (r.plan.Last[server.Churn]-first)/churnSamples, uint64(1); ; {
		select {
		case err := <-done:
			return err
		case <-ticks.C:
			if r.observer.Newest() >= first+next*step {
				r.out[fmt.Sprintf("heap at %03d%%", next*100/churnSamples)] = float64(heap().HeapAlloc - r.base.HeapAlloc)
				next++
			}
		}
	}
}
