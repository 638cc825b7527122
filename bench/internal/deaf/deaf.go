// Package deaf measures how long an informer misses changes, and how often it recovers, when its
// watches are cut and its server has problems. It runs the informers in virtual time: hours pass in
// seconds, and the results only depend on how long the informers wait, never on the speed of the
// machine.
package deaf

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/server"
)

// Schedule is what happens to the informer's connection.
type Schedule struct {
	// Lasts is how long the informer is observed, from its sync on.
	Lasts time.Duration
	// CutAfter is how long a proxy keeps each watch open; 0 means forever.
	CutAfter time.Duration
	// Faults are sorted by start and do not overlap.
	Faults []Fault
}

// Fault is something that goes wrong. Every fault ends the watches that are open when it begins.
type Fault struct {
	At    time.Duration
	Lasts time.Duration // 0 if it is momentary
	Kind  Kind
}

// Kind is the kind of a fault.
type Kind string

// The kinds of faults.
const (
	// Cut ends the body of the watch like a server that shuts down cleanly; Broken breaks the connection.
	Cut, Broken Kind = "cut", "broken"
	// Expired drops all older versions, so that the watch cannot be resumed.
	Expired Kind = "expired"
	// Refused refuses connections, and breaks the existing ones.
	Refused Kind = "refused"
	// Unavailable, Internal and Throttled answer every request with 503, 500, or 429 and a second to wait.
	Unavailable, Internal, Throttled Kind = "unavailable", "internal", "throttled"
	// Unauthorized and Forbidden answer every request with 401 or 403.
	Unauthorized, Forbidden Kind = "unauthorized", "forbidden"
	// Gateway answers every request with a proxy's error page and 502.
	Gateway Kind = "gateway"
	// Short ends every watch as soon as it is open.
	Short Kind = "short"
	// Garbled sends bytes that are not a frame, and ends the watch.
	Garbled Kind = "garbled"
	// Silent keeps the open watches open but sends nothing more on them. All others work.
	Silent Kind = "silent"
	// Restored refuses connections too, and goes back to an earlier version, like a restore from a backup.
	Restored Kind = "restored"
)

// momentary faults are over at once, lasting ones are not. Random schedules have these.
var (
	momentary = []Kind{Cut, Broken, Expired}
	lasting   = []Kind{Refused, Unavailable, Internal, Throttled, Short}
)

const (
	meanPause = 30 * time.Second
	longest   = 10 * time.Second
)

// CutEvery returns a schedule with a proxy that cuts each watch after this time.
func CutEvery(after, lasts time.Duration) Schedule { return Schedule{Lasts: lasts, CutAfter: after} }

// Random returns a schedule of faults with pauses of half a minute on average. The same seed yields the same faults.
func Random(seed uint64, lasts time.Duration) Schedule {
	rng := rand.New(rand.NewPCG(seed, 8))
	s := Schedule{Lasts: lasts}
	for at := pause(rng); at < lasts-time.Minute; at += pause(rng) {
		f := Fault{At: at, Kind: momentary[rng.IntN(len(momentary))]}
		if rng.IntN(2) == 0 {
			f.Kind, f.Lasts = lasting[rng.IntN(len(lasting))], time.Duration(rng.Int64N(int64(longest)))
		}
		s.Faults = append(s.Faults, f)
		at += f.Lasts
	}
	return s
}

// pause returns a random time between two faults, of at least half a second.
func pause(rng *rand.Rand) time.Duration {
	return time.Second/2 + time.Duration(rng.ExpFloat64()*float64(meanPause))
}

// Each returns a schedule of repeated faults of one kind, with a pause before each and after the last.
func Each(f Fault, times int, pause time.Duration) Schedule {
	s := Schedule{Lasts: time.Duration(times)*(pause+f.Lasts) + pause}
	for i := range times {
		f.At = pause + time.Duration(i)*(pause+f.Lasts) + time.Duration(i)*7*time.Second/2 // not always in the same second of a minute
		each := f
		if f.Lasts > 0 {
			each.Lasts += time.Duration(i) * time.Second / time.Duration(times) // nor does it end in step with waits of whole seconds
		}
		s.Faults = append(s.Faults, each)
	}
	s.Lasts += time.Duration(times) * 9 * time.Second / 2
	return s
}

// Result is how an informer fared.
type Result struct {
	// Faults is the number of faults, or of watches that the proxy cut; CameBack is the number of
	// those after which the informer was current again before the next one.
	Faults, CameBack int
	// Up is how long the server was reachable, and Deaf how long of that the informer was not current.
	Up, Deaf time.Duration
	// Longest is the longest uninterrupted time that was Deaf.
	Longest time.Duration
}

// prepare makes client-go work in a bubble. Its error handlers print, and one sleeps until a
// millisecond has passed since the last error of the process, or since its start, which on the
// clock of a bubble is in 26 years.
var prepare = sync.OnceFunc(func() {
	utilruntime.ErrorHandlers = nil
	klog.SetLogger(klog.Logger{}) // the zero value discards everything
})

// Run runs an informer through a schedule. It must be called in a synctest bubble.
func Run(ctx context.Context, name engine.Name, schedule Schedule) (Result, error) {
	prepare()
	w, err := newWorld(schedule)
	if err != nil {
		return Result{}, err
	}
	running, err := engine.Start(ctx, name, engine.Config{
		Server: server.Address{Host: "https://" + hostName, CA: w.ca}, Corpus: corpus.ConfigMaps, Encoding: server.Protobuf, Dial: w.net.dial,
	}, w.see)
	if err != nil {
		w.close()
		return Result{}, err
	}
	if err := w.waitSynced(ctx); err != nil {
		_ = running.Stop() // the first error says more
		w.close()
		return Result{}, fmt.Errorf("%s: %w", name, err)
	}
	w.play()
	err = running.Stop()
	w.close()
	return w.result(), err
}
