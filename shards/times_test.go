package shards

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestTimes starts ten replicas, kills one, adds one, and replaces all of them one after the other. It measures how long a
// shard is without a replica that would start work on it, and what that writes.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 100)
		w.adjust = func(p *process) {
			p.client.delay = func() time.Duration { return time.Duration(1+p.random(10)) * time.Millisecond }
		}
		ctx, cancel := context.WithCancel(t.Context())
		measured := make(chan struct{})
		go func() { defer close(measured); w.watchOwners(ctx) }()
		check := func(what string, limit time.Duration, do func()) {
			t.Helper()
			start := time.Now()
			do()
			time.Sleep(30 * time.Second)
			longest := w.takeLongest()
			conflicts := uint64(0)
			for _, p := range w.processes() {
				conflicts += p.replica.Stats().TableConflicts
			}
			rate := float64(w.api.writesSince(start)) / time.Since(start).Seconds()
			t.Logf("%s: unowned for %v; %.1f writes/s, %d conflicts so far", what, longest, rate, conflicts)
			if longest > limit {
				t.Errorf("%s: a shard was unowned for %v", what, longest)
			}
		}
		check("start of the first", time.Second, func() { w.start() })
		check("nine more at once", time.Second, func() {
			for range 9 {
				w.start()
			}
		})
		start := time.Now()
		check("nothing", 0, func() { time.Sleep(10 * time.Minute) })
		if rate := float64(w.api.writesSince(start)) / time.Since(start).Seconds(); rate > 5 {
			t.Errorf("%.1f writes per second while nothing happens", rate)
		}
		check("one is killed", 16*time.Second, func() { w.processes()[3].die() })
		check("one is added", time.Second, func() {
			added := w.start()
			time.Sleep(time.Second)
			if st := added.replica.Stats(); st.Held == 0 || st.Unowned > 0 {
				t.Errorf("a second after its start a replica has %+v", st)
			}
		})
		check("one is stopped", time.Second, func() { w.processes()[2].stop() })
		check("all are replaced", time.Second, func() {
			for _, p := range w.processes() {
				w.start()
				time.Sleep(2 * time.Second)
				p.stop()
				<-p.done
			}
		})
		w.stopAll()
		w.checkReconciled()
		if leases, _ := w.api.backup(); len(leases) != 1 {
			t.Errorf("%d Leases are left", len(leases))
		}
		cancel()
		<-measured
		time.Sleep(time.Minute) // until what the killed process has sent has given up
	})
}
