package simulation

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/tidings/tidings/internal/testseed"
)

var (
	seeds = flag.Int("seeds", 0, "how many seeds TestSimulate runs")
	first = flag.Bool("first", false, "whether TestSimulate ends with the first seed that fails")
	steps = flag.Int("steps", 150, "how many things happen in a run until the faults end")
)

func init() { klog.SetLogger(logr.Discard()) } // client-go logs broken responses

// simulate runs one simulation and fails the test for each broken promise.
func simulate(t *testing.T, config Config) Report {
	t.Helper()
	r := Run(t, config)
	for _, d := range r.Divergences {
		t.Error(d)
	}
	if t.Failed() {
		t.Logf("repeat with %s=%d go test ./internal/simulation -run 'TestSeeds/%s' -args -steps %d", testseed.Variable, config.Seed, config.Mode, config.Steps)
	}
	return r
}

// TestSeeds runs fixed seeds and new ones.
func TestSeeds(t *testing.T) {
	const fixed = 1
	for _, mode := range Modes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(fixed) {
				t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { simulate(t, Config{Seed: seed, Mode: mode, Steps: *steps}) })
			}
			testseed.Each(t, 1, func(t *testing.T, seed uint64) { simulate(t, Config{Seed: seed, Mode: mode, Steps: *steps}) })
		})
	}
}

// TestScheduleRepeats runs one seed twice, and checks that what the seed determines is the same.
func TestScheduleRepeats(t *testing.T) {
	seed := testseed.Seed(t)
	first := simulate(t, Config{Seed: seed, Mode: Typed, Steps: 120})
	again := simulate(t, Config{Seed: seed, Mode: Typed, Steps: 120})
	if first.Schedule != again.Schedule || first.Writes != again.Writes || first.Writes == 0 {
		t.Errorf("first %+v, then %+v", first, again)
	}
}

// TestSimulate runs as many seeds as the flag says, and prints a summary.
func TestSimulate(t *testing.T) {
	if *seeds == 0 {
		t.Skip("make simulate runs this")
	}
	var mu sync.Mutex
	var all Summary
	var failed atomic.Bool
	seed := testseed.Seed(t)
	before := measure()
	t.Run("runs", func(t *testing.T) {
		for i := range *seeds {
			config := Config{Seed: seed + uint64(i), Mode: Modes[i%len(Modes)], Steps: *steps}
			t.Run(fmt.Sprintf("%s/seed=%d", config.Mode, config.Seed), func(t *testing.T) {
				t.Parallel()
				if *first && failed.Load() {
					t.SkipNow()
				}
				report := simulate(t, config)
				mu.Lock()
				defer mu.Unlock()
				all.Add(report)
				if t.Failed() {
					failed.Store(true)
				}
			})
		}
	})
	after := measure()
	fmt.Printf("%sgoroutines: %d before, %d after; heap: %d KiB before, %d KiB after\n", &all, before.goroutines, after.goroutines, before.heap>>10, after.heap>>10)
	after.compare(t, before)
	if !*first || !failed.Load() {
		fmt.Printf("rare branches:\n%s", requireBranches(t))
	}
}

// footprint is the number of goroutines and the memory of the process.
type footprint struct {
	goroutines int
	heap       uint64
}

func measure() footprint {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // frees what finalizers have released
	runtime.ReadMemStats(&stats)
	return footprint{runtime.NumGoroutine(), stats.HeapAlloc}
}

// compare fails the test if a process uses more than before. Lazily filled tables of types, and the test's own records,
// take some memory.
func (f footprint) compare(t *testing.T, before footprint) {
	t.Helper()
	const allowed = 16 << 20
	if f.goroutines > before.goroutines {
		t.Errorf("%d goroutines were running before, now %d are", before.goroutines, f.goroutines)
	}
	if f.heap > before.heap+allowed {
		t.Errorf("the heap has grown from %d to %d bytes", before.heap, f.heap)
	}
}

// TestFootprint runs seeds one after the other, and checks that goroutines and memory return to the initial level after
// each.
func TestFootprint(t *testing.T) {
	run := func() { simulate(t, Config{Seed: testseed.Seed(t), Mode: Typed, Steps: 60}) }
	run()
	before := measure()
	for range 3 {
		run()
	}
	measure().compare(t, before)
}
