package ondemand

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tidings/tidings/internal/testseed"
)

// step is what happens in a time: what reading on demand takes, and what holding all takes.
type step struct {
	lasts             time.Duration
	requests, brought int
}

// randomSteps has phases of many requests and of few, of many changes and of none.
func randomSteps(random *rand.Rand, objects int, changes bool) (steps []step) {
	for len(steps) < 2000 {
		requests, brought := random.IntN(1+random.IntN(1+objects)), 0
		if random.IntN(2) == 0 {
			requests = 0
		}
		if changes && random.IntN(2) == 0 {
			brought = random.IntN(1 + random.IntN(1+objects))
		}
		lasts := time.Duration(1+random.IntN(1000)) * time.Second
		for range 1 + random.IntN(50) {
			steps = append(steps, step{lasts, requests, brought})
		}
	}
	return steps
}

// costs returns what a step takes on demand, and with all held.
func (s step) costs(bytes int64) (onDemand, held time.Duration) {
	rent := time.Duration(float64(s.lasts) * float64(bytes) / bytesPerCore)
	return time.Duration(s.requests) * requestCost, rent + time.Duration(s.brought)*bodyCost
}

// TestBalanceAgainstTheBest compares what the balance decides with the best decisions of somebody who knows the future.
func TestBalanceAgainstTheBest(t *testing.T) {
	worst := map[bool]float64{}
	testseed.Each(t, 300, func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		objects := 1 + random.IntN(10_000)
		bytes := int64(objects) * int64(300+random.IntN(20_000))
		changes := seed%2 == 0
		steps := randomSteps(random, objects, changes)
		ours, best := decided(steps, objects, bytes), bestOf(steps, objects, bytes)
		worst[changes] = max(worst[changes], float64(ours)/float64(best))
		most := 3.0
		if changes { // which nobody knows of while bodies are read on demand
			most = 4
		}
		slack := 2 * max(leastRegret, time.Duration(objects)*bodyCost)
		if float64(ours) > most*float64(best)+float64(slack) {
			t.Errorf("took %v of a core, and the best decisions %v", ours, best)
		}
	})
	t.Logf("at most %.2f times the best decisions, and %.2f times with changes", worst[false], worst[true])
}

// decided returns what the steps take with a balance.
func decided(steps []step, objects int, bytes int64) (took time.Duration) {
	var b balance
	now := time.Unix(1, 0)
	b.note(now, usage{})
	for _, s := range steps {
		onDemand, held := s.costs(bytes)
		u := usage{objects: objects, bytes: bytes, requests: s.requests}
		if b.held {
			took += held
			u.brought = s.brought
		} else {
			took += onDemand
		}
		if now = now.Add(s.lasts); b.note(now, u) {
			if b.changed(!b.held); b.held {
				took += time.Duration(objects) * bodyCost
			}
		}
	}
	return took
}

// bestOf returns the least that the steps can take.
func bestOf(steps []step, objects int, bytes int64) time.Duration {
	list := time.Duration(objects) * bodyCost
	free, full := time.Duration(0), list // the least so far that ends on demand, and with all held
	for _, s := range steps {
		onDemand, held := s.costs(bytes)
		free, full = min(free, full)+onDemand, min(full, free+list)+held
	}
	return min(free, full)
}
