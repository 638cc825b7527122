package controller

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/shards"
	"github.com/tidings/tidings/workqueue"
)

// sharding makes a controller reconcile only the keys of the shards that its replica owns.
//
// A key of another shard is dropped where it is enqueued, and again where a worker gets it, since the shard may have been
// lost meanwhile. When a shard is gained, follow enqueues its keys: those of all objects in the caches, and those that
// were dropped recently, whose objects may be gone.
type sharding struct {
	c       *Controller
	replica *shards.Replica

	mu sync.Mutex
	// owned is what the replica held when follow last looked.
	owned map[int]uint64
	// dropped and droppedBefore are keys of changes that were dropped since turned, and for as long before that.
	dropped, droppedBefore map[object.Key]bool
	turned                 time.Time
	// samples are the shards of some keys, to notice if the function changes its mind.
	samples map[object.Key]int

	problems atomic.Uint64 // of the function
	problem  atomic.Pointer[error]

	replays replays
}

const (
	// maxDropped is how many dropped keys are remembered, at least for droppedFor, if there are not more in that time.
	maxDropped = 10_000
	droppedFor = 5 * time.Minute
	// maxSamples is the number of keys whose shards are compared with what they were.
	maxSamples = 1000
)

func newSharding(c *Controller, replica *shards.Replica) *sharding {
	return &sharding{
		c: c, replica: replica, owned: map[int]uint64{}, dropped: map[object.Key]bool{}, samples: map[object.Key]int{},
		turned: time.Now(),
	}
}

// byNamespace is the default of Options.ShardBy.
func byNamespace(key object.Key) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.Namespace
}

// shardOf returns the key's shard.
func (s *sharding) shardOf(key object.Key) int {
	if s.c.options.ShardBy == nil {
		return s.replica.ShardOf(byNamespace(key))
	}
	shard := s.replica.ShardOf(s.text(key))
	s.mu.Lock()
	before, known := s.samples[key]
	if !known && len(s.samples) < maxSamples {
		s.samples[key] = shard
	}
	s.mu.Unlock()
	if known && before != shard {
		s.report(fmt.Errorf("ShardBy does not always return the same for %s: two replicas may reconcile it", key), nil)
	}
	return shard
}

// text calls the user's function. If it panics, the namespace counts.
func (s *sharding) text(key object.Key) (text string) {
	defer func() {
		if v := recover(); v != nil {
			text = byNamespace(key)
			s.report(fmt.Errorf("ShardBy panicked for %s, so its namespace counts: %v", key, v), debug.Stack())
		}
	}()
	return s.c.options.ShardBy(key)
}

// report counts and logs a problem of the user's function, which Readyz reports from now on.
func (s *sharding) report(problem error, stack []byte) {
	s.problems.Add(1)
	if s.problem.CompareAndSwap(nil, &problem) {
		s.c.log.Error("keys cannot be divided among replicas", "error", problem, "stack", string(stack))
	}
}

func (s *sharding) ready() error {
	if problem := s.problem.Load(); problem != nil {
		return *problem
	}
	return nil
}

// wants reports whether a key is to be enqueued. If it is dropped, and something has changed, it is remembered.
func (s *sharding) wants(key object.Key, p workqueue.Priority) bool {
	shard := s.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.owned[shard]; ok {
		return true
	}
	if p > workqueue.Low {
		s.remember(key)
	}
	return false
}

// remember records a dropped key. The caller holds mu.
func (s *sharding) remember(key object.Key) {
	if len(s.dropped) >= maxDropped/2 || time.Since(s.turned) > droppedFor {
		s.droppedBefore, s.dropped, s.turned = s.dropped, map[object.Key]bool{}, time.Now()
	}
	s.dropped[key] = true
}

// begin returns the context for a reconcile of the key, and what to call at its end, if the replica owns its shard.
func (s *sharding) begin(ctx context.Context, key object.Key) (work context.Context, end func(), ok bool) {
	shard := s.shardOf(key)
	if work, end, ok = s.replica.Begin(ctx, shard); ok {
		return work, end, true
	}
	s.mu.Lock()
	s.remember(key)
	s.mu.Unlock()
	// If the shard has come back, follow may have taken what was dropped before this key was added to it.
	return s.replica.Begin(ctx, shard)
}

// follow takes up the shards that the replica gains, until ctx ends.
func (s *sharding) follow(ctx context.Context) {
	for ctx.Err() == nil {
		changed := s.replica.Changed()
		if gained, keys := s.update(s.replica.Held()); len(gained) > 0 {
			for _, key := range keys {
				s.c.enqueue(key, workqueue.Normal)
			}
			s.replay(gained)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// update makes held what the replica owns. It returns the shards that it has gained, and their keys that were dropped.
func (s *sharding) update(held map[int]uint64) (gained map[int]bool, keys []object.Key) {
	s.mu.Lock()
	gained = map[int]bool{}
	for shard, gain := range held {
		if before, ok := s.owned[shard]; !ok || before != gain {
			gained[shard] = true
		}
	}
	s.owned = held
	var dropped []object.Key
	for _, all := range []map[object.Key]bool{s.dropped, s.droppedBefore} {
		for key := range all {
			dropped = append(dropped, key)
		}
	}
	s.mu.Unlock()
	for _, key := range dropped {
		if gained[s.shardOf(key)] {
			keys = append(keys, key)
		}
	}
	return gained, keys
}

// replay enqueues the keys of all objects in the gained shards.
func (s *sharding) replay(gained map[int]bool) {
	enqueue := func(key object.Key, p workqueue.Priority) {
		if gained[s.shardOf(key)] {
			s.c.enqueue(key, p)
		}
	}
	var removes []func()
	for _, source := range s.c.sourceList() {
		remove, err := source.replay(s.c, enqueue)
		switch {
		case err != nil:
			s.c.log.Error("cannot reconcile the objects of gained shards", "cache", source.name(), "error", err)
		case remove != nil:
			removes = append(removes, remove)
		}
	}
	s.replays.replace(removes)
}

// replays are the handlers that replay caches of other kinds than this project's.
type replays struct {
	mu      sync.Mutex
	removes []func()
	ended   bool
}

// replace removes the handlers in favor of those that removes remove.
func (r *replays) replace(removes []func()) {
	r.mu.Lock()
	before := r.removes
	if r.removes = removes; r.ended {
		before, r.removes = append(before, removes...), nil
	}
	r.mu.Unlock()
	for _, remove := range before {
		remove()
	}
}

// removeAll removes the handlers, and those that are added later.
func (r *replays) removeAll() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.replace(nil)
}
