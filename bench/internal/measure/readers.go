package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/server"
)

// Readers measures what readers cost beside an informer of pods, of which none changes. Time is virtual, so that hours
// with few reads take no longer than these; CPU is real, in percent of a core. What is folded after the last read
// counts.
type Readers struct {
	Engine   engine.Name
	KeepOpen bool // Tidings keeps all objects open
	Objects  int
	Part     time.Duration // the duration of each reading is divided by this
}

const (
	// settleFor is how long nobody reads after the first list, and after each reading.
	settleFor = 5 * time.Minute
	// collectEvery is how often Go's runtime collects garbage at the least, which it does not in virtual time.
	collectEvery = 2 * time.Minute
	// resyncEvery is the period of the handler's resyncs.
	resyncEvery = 10 * time.Minute
	// getsAtOnce is how many gets follow each other without a pause, and timedGets is one in how many is timed.
	getsAtOnce, timedGets = 10, 10
	// busyShare is the share of the pods that are read again and again.
	busyShare = 100
)

// reading is what readers do.
type reading struct {
	name         string
	lasts, every time.Duration
	read         func(*reads) error
}

// Readings are the names of what is read, in the order of the measurements.
var Readings = []string{idling, busyGets, anyGets, eachSecond, eachMinute, eachHour, byIndex, resyncs}

// The names of the readings.
const (
	idling     = "nothing"
	busyGets   = "1,000 gets/s of 1% of the pods"
	anyGets    = "1,000 gets/s of all pods, at random"
	eachSecond = "a list of all each second"
	eachMinute = "a list of all each minute"
	eachHour   = "a list of all each hour"
	byIndex    = "100 lookups/s of an owner's 24 pods"
	resyncs    = "a resync each ten minutes"
)

// Readings with a handler that is resynced need an informer of their own.
var (
	readings = []reading{
		{idling, 30 * time.Minute, time.Minute, func(*reads) error { return nil }},
		{busyGets, 5 * time.Minute, 10 * time.Millisecond, func(r *reads) error {
			return r.gets(max(1, len(r.pods)/busyShare))
		}},
		{anyGets, 10 * time.Minute, 10 * time.Millisecond, func(r *reads) error { return r.gets(len(r.pods)) }},
		{eachSecond, 10 * time.Minute, time.Second, (*reads).list},
		{eachMinute, 20 * time.Minute, time.Minute, (*reads).list},
		{eachHour, 2 * time.Hour, time.Hour, (*reads).list},
		{byIndex, 10 * time.Minute, 10 * time.Millisecond, (*reads).lookup},
	}
	resynced = []reading{{resyncs, time.Hour, time.Minute, func(*reads) error { return nil }}}
)

// Run runs the readings. It needs a test, because virtual time requires one.
func (r Readers) Run(t *testing.T) (Metrics, error) {
	replay, err := server.NewReplay(corpus.Pods, r.Objects, newMapping)
	if err != nil {
		return nil, err
	}
	pods, err := corpus.Pods.Make(r.Objects)
	if err != nil {
		return nil, err
	}
	all := &reads{rng: rand.New(rand.NewPCG(1, 2)), out: Metrics{}}
	for _, pod := range pods {
		all.pods = append(all.pods, [2]string{pod.GetNamespace(), pod.GetName()})
		all.owners = append(all.owners, engine.OwnerOf(pod))
	}
	slices.Sort(all.owners)
	all.owners = slices.Compact(all.owners)
	all.rng.Shuffle(len(all.pods), func(i, j int) { all.pods[i], all.pods[j] = all.pods[j], all.pods[i] })
	pods = nil
	all.base = float64(heap().HeapAlloc)
	config := engine.ReadableConfig{
		Rest: &rest.Config{Host: "http://server", Transport: replay, QPS: -1}, KeepOpen: r.KeepOpen,
	}
	synctest.Test(t, func(t *testing.T) { err = all.run(t.Context(), r, config, readings) })
	if err != nil {
		return nil, err
	}
	config.Resync = resyncEvery
	synctest.Test(t, func(t *testing.T) { err = all.run(t.Context(), r, config, resynced) })
	return all.out, err
}

// reads are the readings of one informer.
type reads struct {
	pods   [][2]string // namespaces and names, in random order
	owners []string
	rng    *rand.Rand
	base   float64 // the heap before the informers

	cache engine.Readable
	took  []float64 // what timed reads took, in microseconds
	out   Metrics
}

func (r *reads) run(ctx context.Context, of Readers, config engine.ReadableConfig, readings []reading) (err error) {
	if r.cache, err = engine.StartReadable(ctx, of.Engine, config); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.cache.Stop()) }()
	defer collectNowAndThen()()
	time.Sleep(settleFor)
	for _, reading := range readings {
		reading.lasts = max(reading.lasts/max(1, of.Part), 2*reading.every)
		if err := r.reading(reading); err != nil {
			return fmt.Errorf("%s: %w", reading.name, err)
		}
	}
	return nil
}

// collectNowAndThen collects garbage as often as Go's runtime would if that has not happened meanwhile, until the
// returned function is called.
func collectNowAndThen() (stop func()) {
	cycles := readCollections().cycles
	var timer *time.Timer
	timer = time.AfterFunc(collectEvery, func() {
		if readCollections().cycles == cycles {
			runtime.GC()
		}
		cycles = readCollections().cycles
		timer.Reset(collectEvery)
	})
	return func() { timer.Stop() }
}

func (r *reads) reading(reading reading) error {
	r.took = nil
	used, err := r.spend(func() error {
		for range reading.lasts / reading.every {
			time.Sleep(reading.every)
			if err := reading.read(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.out[reading.name+": heap"] = (float64(heap().HeapAlloc) - r.base) / float64(len(r.pods))
	settled, err := r.spend(func() error { time.Sleep(settleFor); return nil })
	r.out[reading.name+": CPU"] = 100 * (used + settled).Seconds() / reading.lasts.Seconds()
	if slices.Sort(r.took); len(r.took) > 0 {
		r.out[reading.name+": p99"] = r.took[len(r.took)*99/100]
	}
	return err
}

// spend returns the CPU that f has taken.
func (r *reads) spend(f func() error) (time.Duration, error) {
	before, err := cpuTime()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := cpuTime()
	return after - before, err
}

// timed notes how long a read takes. The bubble's clock stands still meanwhile.
func (r *reads) timed(f func() bool) (bool, error) {
	var before, after unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &before); err != nil {
		return false, err
	}
	ok := f()
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &after)
	r.took = append(r.took, float64(after.Nano()-before.Nano())/1000)
	return ok, err
}

// gets reads some of the first n pods.
func (r *reads) gets(n int) (err error) {
	for i := range getsAtOnce {
		pod := r.pods[r.rng.IntN(n)]
		get := func() bool { return r.cache.Get(pod[0], pod[1]) }
		ok := false
		if i%timedGets == 0 {
			ok, err = r.timed(get)
		} else {
			ok = get()
		}
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("pod %s/%s is missing", pod[0], pod[1])
		}
	}
	return nil
}

func (r *reads) list() error {
	ok, err := r.timed(func() bool { return r.cache.List() == len(r.pods) })
	if err != nil {
		return err
	}
	if !ok {
		return errors.New("a list is not complete")
	}
	return nil
}

func (r *reads) lookup() error {
	if owner := r.owners[r.rng.IntN(len(r.owners))]; r.cache.Owned(owner) == 0 {
		return fmt.Errorf("owner %q has no pods", owner)
	}
	return nil
}
