package deaf

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/bench/internal/engine"
)

// Recovery is how long it takes until an informer is current again after faults of one kind, counted from when the
// server works again.
type Recovery struct {
	Times         int // number of faults, and of those after which it was current before the next one
	Recovered     int
	Mean, Longest time.Duration
}

// Case is a kind of fault, with its description.
type Case struct {
	Fault Fault
	What  string
	pause time.Duration
}

// Cases are the faults whose recovery is measured.
var Cases = []Case{
	{Fault{Kind: Cut}, "the server ends the watch", pauseAfter},
	{Fault{Kind: Broken}, "the connection breaks", pauseAfter},
	{Fault{Kind: Garbled}, "the watch sends bytes that are not an event", pauseAfter},
	{Fault{Kind: Expired}, "the watch ends, and its version has expired", pauseAfter},
	{Fault{Kind: Refused, Lasts: 2 * time.Second}, "connections are refused for 2 s", pauseAfter},
	{Fault{Kind: Refused, Lasts: time.Minute}, "connections are refused for 1 min", pauseAfter},
	{Fault{Kind: Unavailable, Lasts: 20 * time.Second}, "503 for 20 s", pauseAfter},
	{Fault{Kind: Internal, Lasts: 20 * time.Second}, "500 for 20 s", pauseAfter},
	{Fault{Kind: Gateway, Lasts: 20 * time.Second}, "502 with a proxy's error page for 20 s", pauseAfter},
	{Fault{Kind: Throttled, Lasts: 20 * time.Second}, "429, Retry-After 1 s, for 20 s", pauseAfter},
	{Fault{Kind: Unauthorized, Lasts: 20 * time.Second}, "401 for 20 s", pauseAfter},
	{Fault{Kind: Forbidden, Lasts: 20 * time.Second}, "403 for 20 s", pauseAfter},
	{Fault{Kind: Short, Lasts: 20 * time.Second}, "every watch ends immediately for 20 s", pauseAfter},
	{Fault{Kind: Restored, Lasts: 20 * time.Second}, "etcd is restored within 20 s, losing 5 min of history", 12 * time.Minute},
	{Fault{Kind: Silent}, "the watch goes silent, its connection stays open", 12 * time.Minute},
}

const (
	// pauseAfter is the time between two faults. Both informers wait less than that.
	pauseAfter = 3 * time.Minute
	// recoveries is how often each fault is measured, because the waits are random.
	recoveries = 10
)

// Long reports whether the faults of the case are far apart, because recovering takes long.
func (c Case) Long() bool { return c.pause > pauseAfter }

// Measure measures a case, in virtual time.
func (c Case) Measure(t *testing.T, name engine.Name, times int) (Recovery, error) {
	if times == 0 {
		times = recoveries
	}
	var result Result
	var err error
	synctest.Test(t, func(t *testing.T) { result, err = Run(t.Context(), name, Each(c.Fault, times, c.pause)) })
	return Recovery{
		Times: result.Faults, Recovered: result.CameBack, Mean: result.Deaf / time.Duration(max(1, result.Faults)), Longest: result.Longest,
	}, err
}
