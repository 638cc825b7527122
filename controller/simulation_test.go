package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
)

// process is a process of the simulation: it dies when its manager's Run returns, with everything that runs in it.
type process struct {
	id     string
	client *leaseClient
	stop   context.CancelFunc
	done   chan error
	dead   atomic.Bool
}

// world tracks which processes act.
type world struct {
	t      *testing.T
	lease  leaseServer
	mu     sync.Mutex
	acting map[*process]int
	acts   int
}

// act records that a reconcile of the process begins. The returned function records its end.
func (w *world) act(p *process) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acting[p]++
	w.acts++
	w.check()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.check()
		if w.acting[p]--; w.acting[p] == 0 {
			delete(w.acting, p)
		}
	}
}

func (w *world) check() {
	var ids []string
	for p := range w.acting {
		if !p.dead.Load() {
			ids = append(ids, p.id)
		}
	}
	if len(ids) > 1 {
		w.t.Errorf("%v act at once", ids)
	}
}

// TestNeverTwoManagersAct lets managers compete over a network that is slow, loses calls and responses, and is cut, and
// stops them at random, while their reconciles end late or never. The reconciles of two managers must never overlap.
func TestNeverTwoManagersAct(t *testing.T) {
	testseed.Each(t, 20, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { simulateManagers(t, seed) })
	})
}

func simulateManagers(t *testing.T, seed uint64) {
	w := &world{t: t, acting: map[*process]int{}}
	number := rand.New(rand.NewPCG(seed, 0)).IntN
	release := make(chan struct{})
	processes := make([]*process, 3)
	for i := range processes {
		processes[i] = w.start(seed, i, release)
	}
	restart := func() {
		for i, p := range processes {
			select {
			case <-p.done:
				processes[i] = w.start(seed, len(processes)+number(1<<20), release)
			default:
			}
		}
	}
	for range 1500 {
		time.Sleep(time.Duration(number(1000)) * time.Millisecond)
		switch p := processes[number(len(processes))]; number(80) {
		case 0:
			p.client.cut.Store(true)
			time.AfterFunc(time.Duration(number(30))*time.Second, func() { p.client.cut.Store(false) })
		case 1, 2:
			p.stop()
		}
		restart()
	}
	for _, p := range processes {
		p.stop()
		<-p.done
	}
	close(release)
	time.Sleep(time.Minute) // until the work of dead processes has ended, too
	if w.acts < 100 {
		t.Errorf("only %d reconciles", w.acts)
	}
}

// start starts a process whose reconciles take up to 20 s, and end up to 3.5 s after the loss of the lease, or never.
func (w *world) start(seed uint64, n int, release chan struct{}) *process {
	p := &process{id: fmt.Sprint("process-", n), done: make(chan error, 1)}
	random := lockedRand(seed, uint64(n))
	p.client = &leaseClient{server: &w.lease}
	p.client.delay = func() time.Duration {
		return time.Duration(random(3000)) * time.Millisecond * time.Duration(1+3*(random(20)/19))
	}
	p.client.fails = func() bool { return random(20) == 0 }
	elector := &LeaseElector{
		Client: p.client, Name: "demo", Identity: p.id, Logger: slog.New(slog.DiscardHandler),
		Rand: func() float64 { return float64(random(1000)) / 1000 },
	}
	c := New("test", func(ctx context.Context, _ object.Key) (Result, error) {
		end := w.act(p)
		defer end()
		if random(100) == 0 {
			<-release // never
		}
		select {
		case <-time.After(time.Duration(random(20_000)) * time.Millisecond):
		case <-ctx.Done():
			linger := 3500
			if !errors.Is(context.Cause(ctx), ErrLeaseLost) {
				linger = 25_000 // the lease is renewed meanwhile
			}
			time.Sleep(time.Duration(random(linger)) * time.Millisecond)
		}
		return Result{RequeueAfter: time.Second}, nil
	}, Options{Workers: 3, Logger: slog.New(slog.DiscardHandler)})
	for _, name := range []string{"a", "b", "c", "d"} {
		c.Enqueue(key(name))
	}
	m := NewManager(elector)
	m.Add(c)
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() {
		err := m.Run(ctx)
		time.Sleep(900 * time.Millisecond) // what the process takes to exit
		p.dead.Store(true)
		p.done <- err
	}()
	return p
}

// lockedRand returns random numbers below n, to any goroutine.
func lockedRand(seed, stream uint64) func(n int) int {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, stream))
	return func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
}
