package measure

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/server"
)

// extraHandlers is how many handlers BurstAgain has more than Burst.
const extraHandlers = 9

// Stack is a whole informer over HTTP, from its start on through the given phases.
type Stack struct {
	Engine engine.Name
	Config engine.Config
	Phases []server.Phase
	// Profiles are files that get the CPU profiles of phases, or of Sync.
	Profiles map[server.Phase]string `json:",omitempty"`
}

// Sync is what a Stack does before its first phase: the initial list.
const Sync server.Phase = "sync"

// run is a Stack while it is measured.
type run struct {
	Stack
	plan     server.Plan
	observer *engine.Observer
	running  engine.Engine
	base     runtime.MemStats
	out      Metrics
}

// Run syncs the informer and goes through the phases one after the other.
func (s Stack) Run(ctx context.Context) (metrics Metrics, err error) {
	r := &run{Stack: s, out: Metrics{}}
	if err := s.get(ctx, "/bench/plan", &r.plan); err != nil {
		return nil, err
	}
	err = profiled(s.Profiles[Sync], func() error { return r.sync(ctx) })
	if r.running != nil {
		defer func() { err = errors.Join(err, r.running.Stop()) }()
	}
	if err != nil {
		return nil, err
	}
	last := r.plan.Last[server.Relist]
	for _, phase := range s.Phases {
		if err := profiled(s.Profiles[phase], func() error { return r.phase(ctx, phase, last) }); err != nil {
			return nil, fmt.Errorf("%s: %w", phase, err)
		}
		last = max(last, r.plan.Last[phase])
	}
	return r.out, nil
}

// sync measures the way to the handler's last initial object, and what is then in memory.
func (r *run) sync(ctx context.Context) error {
	r.base = heap()
	r.observer = engine.NewObserver(r.plan.Pods)
	c, err := spend(func() (err error) {
		if r.running, err = engine.Start(ctx, r.Engine, r.Config, r.observer); err != nil {
			return err
		}
		return r.observer.WaitInitial(ctx)
	})
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	if r.out["sync RSS"], err = peakMemory(); err != nil {
		return err
	}
	pods := float64(r.plan.Pods)
	r.out["sync CPU"] = c.cpu.Seconds()
	r.out["sync CPU each"] = per(c.cpu, r.plan.Pods)
	r.out["sync allocations"] = float64(c.mallocs) / pods
	now := heap()
	r.out["heap"] = float64(now.HeapAlloc-r.base.HeapAlloc) / pods
	r.out["heap objects"] = float64(now.HeapObjects-r.base.HeapObjects) / pods
	r.out["wire bytes"] = float64(r.plan.PodBytes) / pods
	return nil
}

// phase lets the server go through one phase, the versions of which begin behind last.
func (r *run) phase(ctx context.Context, phase server.Phase, last uint64) error {
	if _, ok := r.plan.Last[phase]; !ok {
		return errors.New("the server has no such phase")
	}
	events := int(r.plan.Last[phase] - last)
	switch phase {
	case server.Relist:
		return r.relist(ctx)
	case server.Rate:
		return r.rate(ctx, last+1, events)
	case server.Churn:
		return r.churn(ctx)
	case server.BurstAgain:
		if err := r.running.AddHandlers(ctx, extraHandlers); err != nil {
			return err
		}
	}
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
	if before, ok := r.out["burst CPU"]; ok && phase == server.BurstAgain {
		r.out["CPU a handler more"] = (r.out["burst-again CPU"] - before) / extraHandlers
	}
	return nil
}

// play starts a phase and waits until its last event has come to the handler.
func (r *run) play(ctx context.Context, phase server.Phase) (cost, error) {
	wait := r.observer.Expect(r.plan.Last[phase])
	return spend(func() error {
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
	r.out["relist CPU each"] = per(c.cpu, r.plan.Pods)
	r.out["relist allocations"] = float64(c.mallocs) / float64(r.plan.Pods)
	r.out["relist bytes"] = float64(c.bytes) / float64(r.plan.Pods)
	r.out["relist notifications"] = float64(r.observer.Seen()-seen-1) / float64(r.plan.Pods)
	return nil
}

func (r *run) rate(ctx context.Context, first uint64, events int) error {
	stop := r.observer.Record(first, events)
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
	latency := make([]float64, len(sent))
	for i := range sent {
		latency[i] = float64(arrived[i]-sent[i]) / 1000
	}
	slices.Sort(latency)
	r.out["rate CPU"] = per(c.cpu, events)
	r.out["latency p50"] = latency[len(latency)/2]
	r.out["latency p99"] = latency[len(latency)*99/100]
	return nil
}
