package measure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/server"
)

const (
	// extraHandlers is how many more handlers BurstAgain has than Burst.
	extraHandlers = 9
	// settleCollections is how often the heap is collected before it counts as steady, and settlePause the time in
	// between.
	settleCollections, settlePause = 5, 100 * time.Millisecond
)

// Stack is a whole program: informers over HTTP, from their start through the given phases.
type Stack struct {
	Engine engine.Name
	Config engine.Config
	Phases []server.Phase
	// Resumed is set if the engine starts from what an earlier run has saved in Config.Dir.
	Resumed bool
	// IdleFor is the duration of the phase Idle.
	IdleFor time.Duration
	// Profiles are files for the CPU profiles of phases, or of Sync.
	Profiles map[server.Phase]string `json:",omitempty"`
}

// Phases that a Stack runs without the server.
const (
	// Sync is the initial list. It comes first.
	Sync server.Phase = "sync"
	// Idle waits. The server sends a bookmark per second.
	Idle server.Phase = "idle"
	// Lists lists all pods with client-go's typed lister, and adds a handler.
	Lists server.Phase = "lists"
	// Settle measures the memory that remains after several collections.
	Settle server.Phase = "settle"
)

// run is a Stack being measured.
type run struct {
	Stack
	client   *http.Client
	plan     server.Plan
	observer *engine.Observer
	running  engine.Engine
	read     counter // by the engine; not without TLS
	base     runtime.MemStats
	routines int // goroutines before the start
	out      Metrics
}

// Run syncs the informers and runs the phases one after the other.
func (s Stack) Run(ctx context.Context) (metrics Metrics, err error) {
	r := &run{Stack: s, out: Metrics{}}
	if r.client, err = newClient(s.Config.Server.CA); err != nil {
		return nil, err
	}
	if err := r.get(ctx, "/bench/plan", &r.plan); err != nil {
		return nil, err
	}
	err = r.sync(ctx)
	if r.running != nil {
		defer func() { err = errors.Join(err, r.running.Stop()) }()
	}
	if err != nil {
		return nil, fmt.Errorf("sync: %w", err)
	}
	for _, phase := range s.Phases {
		if err := r.phase(ctx, phase); err != nil {
			return nil, fmt.Errorf("%s: %w", phase, err)
		}
	}
	return r.out, nil
}

// sync measures from the start until the handlers have received the last initial object, and the memory then in use.
func (r *run) sync(ctx context.Context) error {
	r.base, r.routines = heap(), runtime.NumGoroutine()
	r.observer = engine.NewObserver(r.plan.Objects)
	c, err := spend(r.Profiles[Sync], func() (err error) {
		if r.running, err = r.start(ctx); err != nil {
			return err
		}
		return r.awaitSync(ctx)
	})
	if err != nil {
		return err
	}
	r.out["sync bytes"] = float64(r.read.read.Load())
	if r.out["sync RSS"], err = peakMemory(); err != nil {
		return err
	}
	n := float64(r.plan.Objects)
	r.out["sync CPU"] = c.cpu.Seconds()
	r.out["sync CPU each"] = per(c.cpu, r.plan.Objects)
	r.out["sync time"] = c.wall.Seconds()
	r.out["sync allocations"] = float64(c.mallocs) / n
	r.note("sync", c)
	page, err := newPageCost()
	if err != nil {
		return err
	}
	r.out["new page"] = micros(page)
	r.out["sync CPU without new pages"] = (c.cpu - time.Duration(c.pages)*page).Seconds()
	now := heap()
	r.out["heap total"] = float64(now.HeapAlloc) - float64(r.base.HeapAlloc)
	r.out["heap"] = r.out["heap total"] / n
	if r.Config.Budget > 0 {
		r.out["of the budget"] = 100 * r.out["heap total"] / float64(r.Config.Budget)
	}
	r.out["heap objects"] = (float64(now.HeapObjects) - float64(r.base.HeapObjects)) / n
	r.out["goroutines"] = float64(runtime.NumGoroutine() - r.routines)
	r.out["wire bytes"] = float64(r.plan.Bytes) / n
	return nil
}

func (r *run) start(ctx context.Context) (engine.Engine, error) {
	if !r.Config.Plain { // without TLS, a connection from a custom dialer is read differently
		r.Config.Dial = r.read.dial
	}
	if r.Engine == engine.Bytes {
		return engine.StartBytes(ctx, r.Config, r.observer)
	}
	return engine.Start(ctx, r.Engine, r.Config, r.observer.See)
}

// note records the collector's statistics for a phase.
func (r *run) note(phase server.Phase, c cost) {
	r.out[string(phase)+" GC cycles"] = float64(c.gc.cycles)
	r.out[string(phase)+" GC share"] = 100 * c.gc.cpu.Seconds() / c.cpu.Seconds()
	r.out[string(phase)+" GC pause"] = micros(c.gc.longest)
}

func (r *run) phase(ctx context.Context, phase server.Phase) error {
	switch phase {
	case Idle:
		return r.idle(ctx)
	case Settle:
		return r.settle(ctx)
	case Folded:
		return r.folded(ctx)
	case Lists:
		return r.lists(ctx)
	case Day:
		return r.day(ctx)
	case server.BurstAgain:
		if err := r.running.AddHandlers(ctx, extraHandlers); err != nil {
			return err
		}
	}
	if _, ok := r.plan.Last[phase]; !ok {
		return errors.New("the server has no such phase")
	}
	switch phase {
	case server.Relist:
		return r.relist(ctx)
	case server.Rate:
		return r.rate(ctx)
	case server.Churn:
		return r.churn(ctx)
	default:
		return r.burst(ctx, phase)
	}
}

// burst measures events that are sent as fast as they are consumed.
func (r *run) burst(ctx context.Context, phase server.Phase) error {
	events := r.plan.Events[phase]
	runtime.GC()
	seen := r.observer.Seen()
	c, err := r.play(ctx, phase)
	if err != nil {
		return err
	}
	if got := r.observer.Seen() - seen; got < int64(events) {
		return fmt.Errorf("the handler was told of %d events of %d", got, events)
	}
	r.out[string(phase)+" CPU"] = per(c.cpu, events)
	r.out[string(phase)+" allocations"] = float64(c.mallocs) / float64(events)
	r.out[string(phase)+" bytes"] = float64(c.bytes) / float64(events)
	r.note(phase, c)
	if before, ok := r.out["burst CPU"]; ok && phase == server.BurstAgain {
		r.out["CPU a handler more"] = (r.out["burst-again CPU"] - before) / extraHandlers
	}
	return nil
}

// play starts a phase and waits until its last event has reached the handler.
func (r *run) play(ctx context.Context, phase server.Phase) (cost, error) {
	wait := r.observer.Expect(r.plan.Last[phase])
	if r.Config.Keys {
		wait = r.observer.ExpectMore(r.plan.Events[phase])
	}
	return spend(r.Profiles[phase], func() error {
		if err := r.post(ctx, "/bench/phase/"+string(phase)); err != nil {
			return err
		}
		return wait(ctx)
	})
}

func (r *run) relist(ctx context.Context) error {
	seen := r.observer.Seen()
	c, err := r.play(ctx, server.Relist)
	if err != nil {
		return err
	}
	r.out["relist CPU each"] = per(c.cpu, r.plan.Objects)
	r.out["relist allocations"] = float64(c.mallocs) / float64(r.plan.Objects)
	r.out["relist bytes"] = float64(c.bytes) / float64(r.plan.Objects)
	r.out["relist notifications"] = float64(r.observer.Seen()-seen-1) / float64(r.plan.Objects)
	return nil
}

// idle measures what is used while nothing happens, in milliseconds of CPU per second.
func (r *run) idle(ctx context.Context) error {
	runtime.GC()
	c, err := spend(r.Profiles[Idle], func() error {
		select {
		case <-time.After(r.IdleFor):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil {
		return err
	}
	r.out["idle CPU"] = 1000 * c.cpu.Seconds() / c.wall.Seconds()
	return nil
}

// timesListed is how often Lists lists.
const timesListed = 20

func (r *run) lists(ctx context.Context) error {
	lister, ok := r.running.(engine.Listing)
	if !ok {
		return errors.New("the engine has no lister of client-go's")
	}
	runtime.GC()
	lists, err := spend("", func() error {
		for range timesListed {
			if n, err := lister.ListPods(); err != nil || n != r.plan.Objects {
				return fmt.Errorf("the list has %d pods: %w", n, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	late, err := spend("", func() error { return r.running.AddHandlers(ctx, 1) })
	r.out["typed list each"] = per(lists.cpu, timesListed*r.plan.Objects)
	r.out["late handler"] = micros(late.cpu)
	return err
}

// settle measures what remains after several collections.
func (r *run) settle(ctx context.Context) (err error) {
	for range settleCollections {
		runtime.GC()
		select {
		case <-time.After(settlePause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	r.out["settled heap"] = (float64(heap().HeapAlloc) - float64(r.base.HeapAlloc)) / float64(r.plan.Objects)
	r.out["settled RSS"], err = residentMemory()
	return err
}

// rate measures latency. It skips the first tenth of the events: both engines start with a heap that has just been
// collected, and with cold caches.
func (r *run) rate(ctx context.Context) error {
	events := r.plan.Events[server.Rate]
	runtime.GC()
	stop := r.observer.Record(r.plan.Last[server.Rate]-uint64(events)+1, events)
	c, err := r.play(ctx, server.Rate)
	if err != nil {
		return err
	}
	arrived := stop()
	var sent []int64
	if err := r.get(ctx, "/bench/sent", &sent); err != nil {
		return err
	}
	if len(sent) != len(arrived) {
		return fmt.Errorf("the server has sent %d events, expected %d", len(sent), len(arrived))
	}
	latency := latencies(sent, arrived)[events/10:]
	slices.Sort(latency)
	at := func(part float64) float64 { return latency[int(float64(len(latency)-1)*part)] }
	r.out["rate CPU"] = per(c.cpu, events)
	r.out["latency p50"], r.out["latency p99"], r.out["latency p99.9"], r.out["latency max"] = at(0.5), at(0.99), at(0.999), at(1)
	r.note(server.Rate, c)
	return nil
}

// latencies returns the time from sending to arrival of each event, in microseconds. A version that
// a handler did not receive, because it was coalesced with a newer one of the same object, counts
// as arrived with the next version received.
func latencies(sent, arrived []int64) []float64 {
	out := make([]float64, len(sent))
	next := int64(0)
	for i, at := range slices.Backward(arrived) {
		if at != 0 {
			next = at
		}
		out[i] = float64(next-sent[i]) / 1000
	}
	return out
}
