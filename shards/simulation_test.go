package shards

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/internal/testseed"
)

var seeds = flag.Int("shards.seeds", 150, "number of random runs of TestSimulation")

// TestSimulation lets replicas share shards over a network that is slow and loses, delays and repeats requests, while they
// are killed, paused, cut off, stopped and started, their work ends late or never, their clocks are wrong, the table is
// made unreadable, and the API server restarts and is restored from backups. No two may work on a shard at the same time.
// At the end, when all is well again, each shard has an owner within the duration of a Lease, and no change is forgotten.
func TestSimulation(t *testing.T) {
	testseed.Each(t, *seeds, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { simulate(t, seed) })
	})
}

// weather is how bad the network is. It is good at the end.
type weather struct {
	delay, loss int // milliseconds, percent
	good        bool
}

func simulate(t *testing.T, seed uint64) {
	w := newWorld(t, seed, []int{1, 3, 20, 50}[seed%4])
	number := w.number
	forecast := weather{delay: []int{5, 100, 1500}[number(3)], loss: number(10)}
	end := make(chan struct{})
	w.adjust = func(p *process) { forecast.adjust(p, end) }
	for range 1 + number(5) {
		w.start()
	}
	backup, version := w.api.backup()
	for range 300 {
		time.Sleep(time.Duration(number(1500)) * time.Millisecond)
		for range number(4) {
			w.change(key{number(w.shards), number(keysPerShard)})
		}
		live := w.processes()
		if len(live) == 0 {
			w.start()
			continue
		}
		p := live[number(len(live))]
		switch number(120) {
		case 0, 1:
			p.die()
		case 2:
			p.pause(time.Duration(number(70)) * time.Second)
		case 3:
			p.setCut(true)
			time.AfterFunc(time.Duration(number(30))*time.Second, func() { p.setCut(false) })
		case 4, 5:
			p.stop()
		case 6, 7, 8:
			if len(live) < 7 {
				w.start()
			}
		case 9:
			w.api.stop()
			time.AfterFunc(time.Duration(number(20_000))*time.Millisecond, w.api.start)
		case 10:
			backup, version = w.api.backup()
		case 11:
			if version > 0 && number(2) == 0 {
				w.excuseRestore()
				w.api.restore(backup, version)
				backup, version = w.api.backup()
			}
		case 12, 13:
			w.api.spoil([]string{"", "{"}[number(2)])
		}
	}
	close(end)
	w.calmDown(&forecast)
	w.checkReconciled()
	w.stopAll()
	if w.begun < 10 {
		t.Errorf("only %d reconciles", w.begun)
	}
	time.Sleep(time.Minute) // until what was lost has given up
}

// calmDown ends all faults, and waits until all shards should have owners that have done their work.
func (w *world) calmDown(forecast *weather) {
	w.mu.Lock()
	forecast.good = true
	w.mu.Unlock()
	w.api.start()
	if len(w.processes()) == 0 {
		w.start()
	}
	for _, p := range w.processes() {
		p.wake()
		p.setCut(false)
	}
	time.Sleep(70 * time.Second) // what is still cut, paused or expiring; work that takes long
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	if len(w.processes()) == 0 {
		w.start()
		time.Sleep(17 * time.Second)
	}
	w.takeLongest()
	w.watchOwners(ctx)
	if longest := w.takeLongest(); longest > 0 {
		w.t.Errorf("a shard is without an owner for %v: %s", longest, w.describe())
	}
}

func (w *world) describe() (text string) {
	for _, p := range w.processes() {
		text += fmt.Sprintf("\n%s %+v", p.id, p.replica.Stats())
	}
	return text
}

// excuseRestore lets work overlap until all replicas should have noticed that the server was restored: when they next read
// the Leases, or else when they have not renewed theirs in time and their work has ended.
func (w *world) excuseRestore() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restored = time.Now().Add(14 * time.Second)
}

// adjust makes a process suffer. Work ends when it is told to, or within the grace of 3 s, or rarely never.
func (f *weather) adjust(p *process, end chan struct{}) {
	good := func() bool {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		return f.good
	}
	p.client.skew = time.Duration(p.random(100_000)-50_000) * time.Second
	p.client.delay = func() time.Duration {
		if good() {
			return time.Duration(1+p.random(5)) * time.Millisecond
		}
		return time.Duration(1+p.random(f.delay)) * time.Millisecond * time.Duration(1+3*(p.random(20)/19))
	}
	p.client.fails = func() bool { return p.random(100) < f.loss && !good() }
	p.client.late = func() bool { return p.random(2) == 0 && !good() }
	p.client.again = func() bool { return p.random(30) == 0 && !good() }
	p.takes = func() time.Duration {
		if good() {
			return time.Duration(p.random(100)) * time.Millisecond
		}
		if p.random(40) == 0 {
			return time.Duration(p.random(40)) * time.Second
		}
		return time.Duration(p.random(500)) * time.Millisecond
	}
	p.lingers = func() time.Duration {
		if p.random(200) == 0 && !good() {
			<-end
		}
		return time.Duration(p.random(3000)) * time.Millisecond
	}
}
