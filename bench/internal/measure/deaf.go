package measure

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/bench/internal/deaf"
	"github.com/tidings/tidings/bench/internal/engine"
)

// Deaf measures how long an informer misses changes, and how often it recovers: behind a proxy that cuts every watch
// after a minute, and in a random schedule of faults.
type Deaf struct {
	Engine engine.Name
	Lasts  time.Duration // of each schedule, in virtual time
	Seed   uint64        // of the random schedule
}

// cutAfter is how long the proxy keeps a watch open.
const cutAfter = time.Minute

// Run runs the two schedules. It needs a test, because virtual time requires one.
func (d Deaf) Run(t *testing.T) (Metrics, error) {
	out := Metrics{}
	for name, schedule := range map[string]deaf.Schedule{
		"cut": deaf.CutEvery(cutAfter, d.Lasts), "faults": deaf.Random(d.Seed, d.Lasts),
	} {
		var result deaf.Result
		var err error
		synctest.Test(t, func(t *testing.T) { result, err = deaf.Run(t.Context(), d.Engine, schedule) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name+": deaf"] = 100 * result.Deaf.Seconds() / result.Up.Seconds()
		out[name+": longest deaf"] = result.Longest.Seconds()
		out[name+": happened"], out[name+": came back"] = float64(result.Faults), float64(result.CameBack)
		out[name+": came back of"] = 100 * float64(result.CameBack) / float64(max(1, result.Faults))
	}
	return out, nil
}
