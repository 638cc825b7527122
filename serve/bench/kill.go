package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/serve/internal/launch"
)

// countingReader counts what is read.
type countingReader struct {
	io.Reader
	n *atomic.Int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// follower watches one pod's node from a version, and resumes wherever the balancer leads it.
type follower struct {
	version    uint64
	seen       int
	repeated   int
	expired    int
	lastEvent  time.Time
	longestGap time.Duration
}

// slowRate is the rate of changes in the measurement of gaps: every watcher decodes every change.
const slowRate = 20

// kill kills one of two replicas under watchers of one namespace.
func (w *world) kill(ctx context.Context) ([]row, error) {
	second, err := w.startReplica(ctx)
	if err != nil {
		return nil, err
	}
	balancer, err := launch.NewBalancer(w.replica.Address(), second.Address())
	if err != nil {
		return nil, err
	}
	defer balancer.Close()
	slow := *w
	slow.Rate = min(w.Rate, slowRate)
	list, err := w.admin.CoreV1().Pods("").List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	start, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
	if err != nil {
		return nil, err
	}
	config := w.launcher.Config(balancer.Address(), w.token)
	config.ContentType, config.AcceptContentTypes = protobuf, protobuf
	clients := make([]kubernetes.Interface, (w.Watchers+sharing-1)/sharing)
	for i := range clients {
		if clients[i], err = newOwnClient(config, i); err != nil {
			return nil, err
		}
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	followers := make([]follower, w.Watchers)
	changes := int(w.For.Seconds()) * slow.Rate
	var work sync.WaitGroup
	var done atomic.Int64
	for i := range followers {
		followers[i].version = start
		work.Go(func() { followers[i].run(watching, clients[i/sharing], changes, &done) })
	}
	err = slow.change(ctx, changes, func(i int) {
		if i == changes/2 {
			second.Kill()
		}
	})
	if err == nil {
		err = awaitAll(ctx, &done, int64(w.Watchers))
	}
	cancel()
	work.Wait()
	if err != nil {
		return nil, err
	}
	repeated, expired, gap := 0, 0, time.Duration(0)
	for _, f := range followers {
		repeated, expired, gap = repeated+f.repeated, expired+f.expired, max(gap, f.longestGap)
	}
	what := fmt.Sprintf("one of two replicas is killed under %d watchers, %d changes/s: ", w.Watchers, slow.Rate)
	return []row{
		{what + "longest gap of a watcher", "", show(gap), "", "≤ 2 s"},
		{"the same: watches that needed a list", "", strconv.Itoa(expired), "", "0"},
		{"the same: changes lost or repeated", "", strconv.Itoa(repeated), "", "0"},
	}, nil
}

// newOwnClient returns a client with a connection of its own.
func newOwnClient(config *rest.Config, i int) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = fmt.Sprintf("bench-%d", i)
	client, err := newClients(config, 1)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfigAndClient(config, client[0])
}

// run watches until all changes have been seen.
func (f *follower) run(ctx context.Context, client kubernetes.Interface, changes int, done *atomic.Int64) {
	for ctx.Err() == nil && f.seen < changes {
		f.watch(ctx, client, changes)
		_ = pause(ctx, 50*time.Millisecond) // as an informer does
	}
	if f.seen == changes {
		done.Add(1)
	}
}

func (f *follower) watch(ctx context.Context, client kubernetes.Interface, changes int) {
	options := metav1.ListOptions{ResourceVersion: strconv.FormatUint(f.version, 10), AllowWatchBookmarks: true}
	w, err := client.CoreV1().Pods("").Watch(ctx, options)
	if err != nil {
		return
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok {
			f.expired++
			return
		}
		version, err := strconv.ParseUint(pod.ResourceVersion, 10, 64)
		if err != nil {
			return
		}
		if e.Type == "BOOKMARK" {
			f.version = max(f.version, version)
			continue
		}
		if version <= f.version {
			f.repeated++
		}
		now := time.Now()
		if !f.lastEvent.IsZero() {
			f.longestGap = max(f.longestGap, now.Sub(f.lastEvent))
		}
		f.version, f.lastEvent = version, now
		if f.seen++; f.seen == changes {
			return
		}
	}
}
