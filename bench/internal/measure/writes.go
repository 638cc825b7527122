package measure

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tidings/tidings/bench/internal/engine"
)

// benchNamespace is the namespace of all pods of Writes.
const benchNamespace = "default"

// Writes measures how many changes per second an informer takes from a watch to a handler while goroutines list
// everything and read a field of each object. It has the shape of client-go's BenchmarkSharedIndexInformer: small pods,
// one namespace, nothing encoded, and a writer that is at most InFlight changes ahead of the handler.
type Writes struct {
	Engine   engine.Name
	Objects  int
	Readers  int
	InFlight int
	Duration time.Duration
	// ListsPerSecond is how often each reader lists; 0 means without a pause.
	ListsPerSecond int
}

// Run measures writes and lists per second, and the cost of a write.
func (w Writes) Run(ctx context.Context) (Metrics, error) {
	d, err := w.start(ctx)
	if err != nil {
		return nil, err
	}
	defer d.cache.Stop()
	lists, stopReaders := w.read(d.cache)
	written := 0
	c, err := spend("", func() (err error) {
		written, err = d.writeFor(ctx, w.Duration)
		return err
	})
	done := lists()
	stopReaders()
	if err != nil {
		return nil, err
	}
	return Metrics{
		"writes/s":          float64(written) / c.wall.Seconds(),
		"lists/s":           float64(done) / c.wall.Seconds(),
		"write CPU":         per(c.cpu, written),
		"write allocations": float64(c.mallocs) / float64(written),
	}, nil
}

// read starts the readers.
func (w Writes) read(cache engine.Cache) (lists func() int64, stop func()) {
	var count atomic.Int64
	stopped := make(chan struct{})
	var wg sync.WaitGroup
	for range w.Readers {
		wg.Go(func() {
			wait := func() {}
			if w.ListsPerSecond > 0 {
				ticks := time.NewTicker(time.Second / time.Duration(w.ListsPerSecond))
				defer ticks.Stop()
				wait = func() {
					select {
					case <-ticks.C:
					case <-stopped:
					}
				}
			}
			for wait(); !closed(stopped); wait() {
				if cache.List() == w.Objects {
					count.Add(1)
				}
			}
		})
	}
	return count.Load, func() { close(stopped); wg.Wait() }
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// driver writes to a watch.
type driver struct {
	watcher *watch.FakeWatcher
	cache   engine.Cache
	pods    []corev1.Pod
	room    chan struct{}
	version int
}

// start returns a driver of an informer that has all objects.
func (w Writes) start(ctx context.Context) (*driver, error) {
	d := &driver{
		watcher: watch.NewFakeWithChanSize(max(1, w.InFlight/10), false),
		pods:    smallPods(w.Objects),
		room:    make(chan struct{}, w.InFlight),
		version: 1,
	}
	var err error
	if d.cache, err = engine.NewCache(w.Engine, d, benchNamespace); err != nil {
		return nil, err
	}
	return d, d.cache.Start(ctx, func() { <-d.room })
}

func smallPods(n int) []corev1.Pod {
	rng := rand.New(rand.NewPCG(4, 4))
	pods := make([]corev1.Pod, n)
	for i := range pods {
		pods[i].Namespace, pods[i].ResourceVersion = benchNamespace, "1"
		pods[i].Name = fmt.Sprintf("%016x-%d", rng.Uint64(), i)
	}
	return pods
}

// writeFor changes random pods for the given duration and waits until the handler has received all changes.
func (d *driver) writeFor(ctx context.Context, duration time.Duration) (written int, err error) {
	for start := time.Now(); time.Since(start) < duration; written++ {
		if err := d.write(ctx); err != nil {
			return written, err
		}
	}
	return written, d.drain(ctx)
}

// writeN changes random pods n times and waits until the handler has received the changes.
func (d *driver) writeN(ctx context.Context, n int) error {
	for range n {
		if err := d.write(ctx); err != nil {
			return err
		}
	}
	return d.drain(ctx)
}

func (d *driver) write(ctx context.Context) error {
	d.version++
	pod := d.pods[rand.IntN(len(d.pods))]
	pod.ResourceVersion = strconv.Itoa(d.version)
	select {
	case d.room <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("the handler was not told of a change: %w", context.Cause(ctx))
	}
	d.watcher.Modify(&pod)
	return nil
}

// drain waits until nothing is in flight.
func (d *driver) drain(ctx context.Context) error {
	for range cap(d.room) {
		select {
		case d.room <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("the handler was not told of every change: %w", context.Cause(ctx))
		}
	}
	for range cap(d.room) {
		<-d.room
	}
	return nil
}

// List and Watch make the driver a client for pods. It does not support initial events, like the API servers for which
// client-go's benchmark stands.
func (d *driver) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: d.pods}, nil
}

func (d *driver) Watch(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if opts.SendInitialEvents != nil {
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", nil)
	}
	return d.watcher, nil
}
