package measure

import (
	"context"
	"fmt"

	"github.com/tidings/tidings/bench/internal/server"
)

// Day goes through a day of the server's, and samples the size of the heap after each hour, when everything
// is quiet.
const Day server.Phase = "day"

// DayHeap returns the name of the metric of the heap after i hours.
func DayHeap(i int) string { return fmt.Sprintf("heap at %02d", i) }

func (r *run) day(ctx context.Context) error {
	most := r.out["heap total"]
	r.out[DayHeap(0)] = most
	for i := range server.DaySteps {
		if _, err := r.play(ctx, server.DayStep(i)); err != nil {
			return err
		}
		now := float64(heap().HeapAlloc) - float64(r.base.HeapAlloc)
		r.out[DayHeap(i+1)], most = now, max(most, now)
	}
	r.out["most heap"] = most
	if r.Config.Budget > 0 {
		r.out["most of the budget"] = 100 * most / float64(r.Config.Budget)
	}
	return nil
}
