package measure

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/store"
)

// Batches measures writes to the bare store, with one index, against the size of a batch. client-go's store is written
// to one object after the other whatever the size.
type Batches struct {
	Engine   engine.Name
	Objects  int
	Batch    int
	Readers  int // that list in a loop
	Duration time.Duration
}

// Run measures writes a second.
func (s Batches) Run(context.Context) (Metrics, error) {
	pods := smallPods(s.Objects)
	makeStore := clientGoStore
	if s.Engine == engine.Tidings {
		makeStore = tidingsStore
	}
	write, list := makeStore(pods)
	var stopped atomic.Bool
	var readers sync.WaitGroup
	for range s.Readers {
		readers.Go(func() {
			for !stopped.Load() {
				list()
			}
		})
	}
	written, start := 0, time.Now()
	for batch := make([]*corev1.Pod, s.Batch); time.Since(start) < s.Duration; written += len(batch) {
		for i := range batch {
			batch[i] = &pods[rand.IntN(len(pods))]
		}
		write(batch)
	}
	perSecond := float64(written) / time.Since(start).Seconds()
	stopped.Store(true)
	readers.Wait()
	return Metrics{fmt.Sprintf("store writes/s, batch %d, readers %d", s.Batch, s.Readers): perSecond}, nil
}

func clientGoStore(pods []corev1.Pod) (write func([]*corev1.Pod), list func()) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	write = func(batch []*corev1.Pod) {
		for _, pod := range batch {
			if err := indexer.Update(pod); err != nil {
				panic(err) // pods have keys
			}
		}
	}
	for i := range pods {
		write([]*corev1.Pod{&pods[i]})
	}
	return write, func() {
		if err := cache.ListAllByNamespace(indexer, benchNamespace, labels.Everything(), func(any) {}); err != nil {
			panic(err) // the index exists
		}
	}
}

func tidingsStore(pods []corev1.Pod) (write func([]*corev1.Pod), list func()) {
	writer := store.NewWriter[*corev1.Pod](store.Options{})
	writer.AddIndex("namespace", func(pod *corev1.Pod) []string { return []string{pod.Namespace} })
	load(writer, pods)
	write = func(batch []*corev1.Pod) {
		txn := writer.Begin()
		for _, pod := range batch {
			txn.Set(object.KeyOf(pod), pod)
		}
		txn.Commit("")
	}
	return write, func() {
		for range writer.Store().Snapshot().Namespace(benchNamespace) {
		}
	}
}
