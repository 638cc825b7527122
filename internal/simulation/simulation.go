package simulation

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/tidingstest"
)

// Patience is how long after the last fault it may take until everything is right. Watches that
// hang, or that return stale data, end after ten minutes at most.
const Patience = 30 * time.Minute

// Config configures a run.
type Config struct {
	Seed uint64
	Mode Mode
	// Steps is the number of steps until the faults end.
	Steps int
}

// Report is the result of a run.
type Report struct {
	Config
	// Schedule is a hash of the sequence of writes.
	Schedule uint64
	// Faults counts the faults and incidents by kind.
	Faults map[string]int
	// Writes counts the scheduled writes, Events the deltas that handlers got, Reconciles and Terms
	// those of the processes, and Requests the requests to the server.
	Writes, Events, Reconciles, Terms, Requests int
	// Settled is how long after the last fault everything was right.
	Settled time.Duration
	// Divergences are the promises that were broken.
	Divergences []string
}

// run is one simulation.
type run struct {
	config      Config
	t           *testing.T
	server      *tidingstest.Server
	world       *world
	views       []view
	pool        *processPool
	credentials credentials
	random      *rand.Rand // of the schedule; used by the run's own goroutine
	dir         string     // for saved objects; empty if nothing is saved
	unmonitor   func()     // stops the monitor
	changes     int        // made by the server, as seen by the monitor

	restored atomic.Bool // whether objects may have gone back in time
	stormed  bool

	mu       sync.Mutex
	report   Report
	reported int // errors that reported a rewritten history
}

// Run runs one simulation in its own bubble. Broken promises are in the report, and are not errors
// of t; but what the bubble detects, such as a leaked goroutine, fails t.
func Run(t *testing.T, config Config) (report Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &run{config: config, t: t, random: newRandom(config.Seed, "schedule")}
		r.report = Report{Config: config, Faults: map[string]int{}}
		r.simulate()
		report = r.report
	})
	return report
}

// newRandom returns a random number generator determined by the seed and the purpose.
func newRandom(seed uint64, purpose string) *rand.Rand {
	hash := fnv.New64a()
	hash.Write([]byte(purpose))
	return rand.New(rand.NewPCG(seed, hash.Sum64()))
}

// simulate is the run.
func (r *run) simulate() {
	r.server = tidingstest.NewServer(r.t, tidingstest.ServerOptions{Seed: r.config.Seed, TLS: r.random.IntN(5) == 0})
	r.credentials.server = r.server
	r.world = newWorld(r.server, newRandom(r.config.Seed, "writes"))
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	if r.config.Mode == Warm {
		r.dir = r.t.TempDir()
		r.world.load()
	}
	r.world.fill()
	if err := r.open(ctx); err != nil {
		r.diverge("cannot start: %v", err)
		return
	}
	r.pool = newShift(r, ctx)
	r.monitor(ctx)

	r.disturb(ctx, r.config.Steps/3)
	r.reopen(ctx)
	backup := r.server.Snapshot()
	r.disturb(ctx, r.config.Steps/3)
	r.reopen(ctx)
	if r.random.IntN(3) == 0 {
		r.restore(backup)
	}
	r.disturb(ctx, r.config.Steps/3)
	r.settle()
	r.pool.stop()
	r.checkViews()
	r.unmonitor()
	cancel()
	r.close()
	r.finish()
}

// open starts the views.
func (r *run) open(ctx context.Context) (err error) {
	r.views, err = r.config.Mode.open(r)
	for _, v := range r.views {
		for range 1 + r.random.IntN(3) {
			v.addHandler(r.newHandlerPlan())
		}
		err = errors.Join(err, v.start(ctx))
	}
	return err
}

// disturb runs the steps while requests fail and the server has incidents, and then ends the faults.
func (r *run) disturb(ctx context.Context, steps int) {
	ctx, cancel := context.WithCancel(ctx)
	chaos := tidingstest.Chaos{
		Seed: r.random.Uint64(), Share: []float64{0.02, 0.1, 0.3}[r.random.IntN(3)],
		Hostile: r.random.IntN(2) == 0, Interval: time.Duration(5+r.random.IntN(30)) * time.Second,
	}
	if chaos.Hostile { // otherwise these are rare
		r.server.Inject(tidingstest.Watch, tidingstest.Fault{Reorder: true}, tidingstest.Fault{Duplicate: true}, tidingstest.Fault{Reorder: true})
	}
	r.server.InjectRandom(tidingstest.Any, chaos)
	incidents := make(chan struct{})
	go func() {
		defer close(incidents)
		r.server.Disturb(ctx, chaos)
	}()
	for range steps {
		time.Sleep(r.pause())
		r.step(ctx)
	}
	cancel()
	<-incidents
	r.server.ClearFaults()
}

// pause returns the time until the next step, usually little or none.
func (r *run) pause() time.Duration {
	switch n := r.random.IntN(100); {
	case n < 40:
		return 0
	case n < 95:
		return time.Duration(r.random.IntN(300)) * time.Millisecond
	default:
		return time.Duration(r.random.IntN(10)) * time.Second
	}
}

// step runs one random step.
func (r *run) step(ctx context.Context) {
	r.pool.restartEnded()
	v := r.views[r.random.IntN(len(r.views))]
	switch n := r.random.IntN(200); {
	case n < 8:
		v.addHandler(r.newHandlerPlan())
	case n < 12:
		v.removeHandler(r.random)
	case n < 16:
		v.move(ctx, r.random)
	case n == 16:
		r.pool.stopOne(r.random)
	case n < 20:
		r.pool.isolate(r.random)
	case n == 20:
		r.burst()
	case n == 21:
		r.credentials.change(time.Duration(r.random.IntN(5000)) * time.Millisecond)
		r.countFault("new token")
	case n == 22:
		r.holdBack()
	default:
		r.schedule(r.world.write())
		r.report.Writes++
	}
}

// burst writes a lot in a short time, once, so that slow handlers fall far behind.
func (r *run) burst() {
	const writes = 4000
	if r.stormed || r.random.IntN(4) > 0 {
		return
	}
	r.stormed = true
	r.countFault("storm of writes")
	for range writes {
		r.schedule(r.world.write())
		time.Sleep(time.Millisecond)
	}
	r.report.Writes += writes
}

// holdBack lets the next watches bring nothing for minutes, as behind a proxy that buffers, while the server changes.
func (r *run) holdBack() {
	const watches, writes = 12, 40
	if r.random.IntN(4) > 0 {
		return
	}
	r.countFault("watches held back")
	for range watches {
		r.server.Inject(tidingstest.Watch, tidingstest.Fault{End: tidingstest.Stall})
	}
	for range writes {
		r.schedule(r.world.write())
		time.Sleep(10 * time.Second)
	}
	r.report.Writes += writes
}

// schedule adds a write to the hash.
func (r *run) schedule(what string) {
	hash := fnv.New64a()
	fmt.Fprintln(hash, r.report.Schedule, what)
	r.report.Schedule = hash.Sum64()
}

// countFault counts a fault other than the server's.
func (r *run) countFault(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Faults[kind]++
}

// diverge records a broken promise.
func (r *run) diverge(format string, args ...any) {
	const most = 20
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.report.Divergences) < most {
		r.report.Divergences = append(r.report.Divergences, fmt.Sprintf(format, args...))
	}
}

// restore restores the server from a backup and waits until everything is right again. If a server
// has passed its old version before an informer contacts it again, it cannot be distinguished from
// one that was not restored. So this makes sure that the informers are current, and the backup is
// much older.
func (r *run) restore(backup tidingstest.Snapshot) {
	r.settle()
	const versions = 1000
	for range versions {
		r.world.count()
	}
	// Wait until no earlier response is in transit, and all watches have had a bookmark, including
	// those that currently hang.
	for version, began := r.server.ResourceVersion(), time.Now(); time.Since(began) < 2*time.Minute || !r.current(version) && time.Since(began) < Patience; {
		time.Sleep(5 * time.Second)
	}
	synctest.Wait()
	r.restored.Store(true)
	for _, v := range r.views {
		v.allowRewrites()
	}
	r.countFault("restored")
	r.pool.forget()
	r.server.Restore(backup)
	r.settle()
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
