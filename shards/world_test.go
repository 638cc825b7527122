package shards

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// key is something to be reconciled: a number in a shard.
type key struct{ shard, number int }

const keysPerShard = 3

// world has the processes of a simulation, and checks them.
type world struct {
	t      *testing.T
	api    *leaseAPI
	shards int
	seed   uint64
	adjust func(p *process) // of new processes
	number func(n int) int

	mu       sync.Mutex
	made     int
	live     []*process
	versions map[key]int
	done     map[key]int // the version that was last reconciled
	running  map[int]map[*work]bool
	begun    int
	restored time.Time // until when overlaps are excused, as the server was restored
	unowned  map[int]time.Time
	longest  time.Duration // that a shard was without a replica that would start work on it
}

// work is a reconcile that runs.
type work struct {
	by      *process
	excused bool // its process was paused meanwhile, or has died
}

// process is a replica with workers.
type process struct {
	w       *world
	id      string
	replica *Replica
	client  *leaseClient
	random  func(n int) int
	stop    context.CancelFunc
	done    chan struct{}
	err     error

	// takes is how long a reconcile takes, lingers how long after the end of its context.
	takes, lingers func() time.Duration

	mu     sync.Mutex
	dead   bool
	cut    bool          // it does not reach the server
	paused chan struct{} // closed when the process goes on
	queue  map[key]bool
}

func newWorld(t *testing.T, seed uint64, shards int) *world {
	w := &world{
		t: t, api: newLeaseAPI(), shards: shards, seed: seed, number: lockedRand(seed, 0),
		versions: map[key]int{}, done: map[key]int{},
		running: map[int]map[*work]bool{}, unowned: map[int]time.Time{},
	}
	for s := range shards {
		w.running[s] = map[*work]bool{}
		for n := range keysPerShard {
			w.versions[key{s, n}] = 1
		}
	}
	return w
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

// start starts a process.
func (w *world) start() *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made++
	p := &process{w: w, id: processID(w.made), done: make(chan struct{}), queue: map[key]bool{}}
	p.random = lockedRand(w.seed, uint64(w.made))
	p.client = &leaseClient{api: w.api, awake: p.awake, cut: p.isCut}
	silent := slog.New(slog.DiscardHandler)
	p.replica = &Replica{Client: p.client, Name: "group", Identity: p.id, Shards: w.shards, Logger: silent}
	p.replica.Rand = func() float64 { return float64(p.random(1000)) / 1000 }
	p.replica.awake = p.awake
	p.takes = func() time.Duration { return time.Duration(p.random(100)) * time.Millisecond }
	p.lingers = func() time.Duration { return 0 }
	if w.adjust != nil {
		w.adjust(p)
	}
	w.live = append(w.live, p)
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() {
		defer close(p.done)
		p.err = p.replica.Lead(ctx, p.run)
		p.die()
	}()
	return p
}

func processID(number int) string { return fmt.Sprint("replica-", number) }

// awake returns once the process is not paused.
func (p *process) awake() {
	for {
		p.mu.Lock()
		paused := p.paused
		p.mu.Unlock()
		if paused == nil {
			return
		}
		<-paused
	}
}

// pause takes the CPU from the process for a while.
func (p *process) pause(d time.Duration) {
	p.mu.Lock()
	again := p.paused != nil
	if !again {
		p.paused = make(chan struct{})
	}
	p.mu.Unlock()
	if again {
		return
	}
	p.w.excuse(p)
	time.AfterFunc(d, p.wake)
}

func (p *process) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused != nil {
		close(p.paused)
		p.paused = nil
	}
}

// excuse lets the work that runs overlap with that of others.
func (w *world) excuse(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, works := range w.running {
		for x := range works {
			if x.by == p {
				x.excused = true
			}
		}
	}
}

// die ends the process at once, as a kill does. What it has sent may still arrive.
func (p *process) die() {
	p.mu.Lock()
	p.dead = true
	p.mu.Unlock()
	p.w.excuse(p)
	p.stop()
	p.wake()
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.live = slices.DeleteFunc(p.w.live, func(other *process) bool { return other == p })
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// isCut reports whether nothing that the process sends arrives.
func (p *process) isCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead || p.cut
}

func (p *process) setCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
}

// run is the program: workers, and one who adds all keys of a gained shard to the queue.
func (p *process) run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { p.follow(ctx) })
	for range 3 {
		running.Go(func() { p.reconcile(ctx) })
	}
	running.Wait()
	return nil
}

func (p *process) follow(ctx context.Context) {
	known := map[int]uint64{}
	for ctx.Err() == nil {
		changed := p.replica.Changed()
		held := p.replica.Held()
		for s, gain := range held {
			if known[s] != gain {
				p.mu.Lock()
				for n := range keysPerShard {
					p.queue[key{s, n}] = true
				}
				p.mu.Unlock()
			}
		}
		known = held
		select {
		case <-changed:
		case <-ctx.Done():
		}
		p.awake()
	}
}

func (p *process) reconcile(ctx context.Context) {
	for ctx.Err() == nil {
		if k, ok := p.take(); ok {
			p.work(ctx, k)
			continue
		}
		select {
		case <-time.After(time.Duration(20+p.random(50)) * time.Millisecond):
		case <-ctx.Done():
		}
		p.awake()
	}
}

func (p *process) take() (key, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 || p.dead {
		return key{}, false
	}
	keys := slices.SortedFunc(maps.Keys(p.queue), func(a, b key) int {
		return (a.shard-b.shard)*keysPerShard + a.number - b.number
	})
	k := keys[p.random(len(keys))]
	delete(p.queue, k)
	return k, true
}

func (p *process) work(ctx context.Context, k key) {
	ctx, end, ok := p.replica.Begin(ctx, k.shard)
	if !ok {
		return
	}
	defer end()
	x, version := p.w.begin(p, k)
	select {
	case <-time.After(p.takes()):
	case <-ctx.Done():
		time.Sleep(p.lingers())
	}
	p.awake()
	if p.w.end(x, k, version, ctx.Err() == nil); ctx.Err() != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.queue[k] = true
	}
}

// begin records that work begins, and checks that no other runs.
func (w *world) begin(p *process, k key) (*work, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := &work{by: p, excused: p.isDead()}
	for other := range w.running[k.shard] {
		if other.by != p && !other.excused && !x.excused && time.Now().After(w.restored) {
			w.t.Errorf("%v: %s and %s work on shard %d", time.Now().Format(time.TimeOnly), p.id, other.by.id, k.shard)
		}
	}
	w.begun++
	w.running[k.shard][x] = true
	return x, w.versions[k]
}

func (w *world) end(x *work, k key, version int, succeeded bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running[k.shard], x)
	if succeeded && !x.by.isDead() {
		w.done[k] = max(w.done[k], version)
	}
}

// change changes a key. All processes see that soon; those that do not own it forget it.
func (w *world) change(k key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.versions[k]++
	for _, p := range w.live {
		time.AfterFunc(time.Duration(p.random(50))*time.Millisecond, func() {
			p.awake()
			if _, ok := p.replica.Held()[k.shard]; ok {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.queue[k] = true
			}
		})
	}
}

// watchOwners measures, at intervals, how long shards are without a replica that would start work on them.
func (w *world) watchOwners(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return
		}
		owned := map[int]bool{}
		for _, p := range w.processes() {
			for s := range p.replica.Held() {
				owned[s] = true
			}
		}
		w.noteOwners(owned)
	}
}

func (w *world) noteOwners(owned map[int]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.shards {
		since, before := w.unowned[s]
		switch {
		case owned[s] && before:
			w.longest = max(w.longest, time.Since(since))
			delete(w.unowned, s)
		case !owned[s] && !before:
			w.unowned[s] = time.Now()
		}
	}
}

// takeLongest returns the longest time that a shard was unowned since the last call. One that is now counts as well.
func (w *world) takeLongest() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	longest := w.longest
	for _, since := range w.unowned {
		longest = max(longest, time.Since(since))
	}
	w.longest = 0
	return longest
}

func (w *world) processes() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.live)
}

// checkReconciled fails the test if a key is forgotten.
func (w *world) checkReconciled() {
	w.mu.Lock()
	defer w.mu.Unlock()
	forgotten := 0
	for k, version := range w.versions {
		if w.done[k] != version {
			forgotten++
		}
	}
	if forgotten > 0 {
		w.t.Errorf("%d of %d keys are forgotten", forgotten, len(w.versions))
	}
}

// stopAll stops all processes in order.
func (w *world) stopAll() {
	for _, p := range w.processes() {
		p.stop()
	}
	for _, p := range w.processes() {
		<-p.done
		if p.err != nil && !errors.Is(p.err, ErrStillRunning) {
			w.t.Errorf("%s: %v", p.id, p.err)
		}
	}
}
