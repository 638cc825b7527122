package measure

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/bench/internal/engine"
)

// Batches measures writes to the bare store by the number of objects in a transaction, while readers list
// everything in a loop and read a field of each object.
type Batches struct {
	Engine   engine.Name
	Objects  int
	Batch    int
	Readers  int
	Duration time.Duration
}

// Run measures writes per second.
func (s Batches) Run(context.Context) (Metrics, error) {
	pods := smallPods(s.Objects)
	store := engine.NewStore(s.Engine, pods)
	var stopped atomic.Bool
	var readers sync.WaitGroup
	var wrong atomic.Int64
	for range s.Readers {
		readers.Go(func() {
			for !stopped.Load() {
				if store.ListNamespace(benchNamespace) != len(pods) {
					wrong.Add(1)
				}
			}
		})
	}
	written, start := 0, time.Now()
	for batch := make([]*corev1.Pod, s.Batch); time.Since(start) < s.Duration; written += len(batch) {
		for i := range batch {
			batch[i] = &pods[rand.IntN(len(pods))]
		}
		store.Write(batch)
	}
	perSecond := float64(written) / time.Since(start).Seconds()
	stopped.Store(true)
	readers.Wait()
	if n := wrong.Load(); n > 0 {
		return nil, fmt.Errorf("%d lists did not have all %d pods", n, len(pods))
	}
	return Metrics{fmt.Sprintf("store writes/s, batch %d, readers %d", s.Batch, s.Readers): perSecond}, nil
}
