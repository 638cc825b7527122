package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// row is one line of the page.
type row struct{ what, server, replica, ratio, target string }

func measure(ctx context.Context, s size, only string) (page string, err error) {
	w, err := newWorld(ctx, s)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	var rows []row
	for _, m := range []struct {
		name string
		run  func(context.Context) ([]row, error)
	}{
		{"memory", w.memory}, {"list", w.lists}, {"get", w.gets}, {"restart", w.restart}, {"watch", w.watchAll},
		{"node", w.watchNodes}, {"kill", w.kill},
	} {
		if !strings.Contains(m.name, only) {
			continue
		}
		more, err := m.run(ctx)
		if err != nil {
			return "", fmt.Errorf("%s: %w", m.name, err)
		}
		rows = append(rows, more...)
	}
	return w.page(rows), nil
}

func ratio(replica, server float64) string {
	if server <= 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f×", replica/server)
}

func durations(what string, server, replica time.Duration, target string) row {
	return row{what, show(server), show(replica), ratio(float64(replica), float64(server)), target}
}

func show(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

func (w *world) memory(context.Context) ([]row, error) {
	full, err := residentOf(w.replica.PID())
	server, replica := w.fullServer-w.emptyServer, full-w.emptyReplica
	return []row{{
		"resident memory that the pods take", fmt.Sprintf("%.0f MB", server/1e6), fmt.Sprintf("%.0f MB", replica/1e6), ratio(replica, server), "≤ 0.15×",
	}}, err
}

// lists downloads all pods.
func (w *world) lists(ctx context.Context) ([]row, error) {
	var cpu, wall [2]time.Duration
	for i, side := range w.sides() {
		clients, err := newClients(side.config, 1)
		if err != nil {
			return nil, err
		}
		defer closeClients(clients)
		before, err := cpuOf(side.pid)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		for range w.Lists {
			if _, err := download(ctx, clients[0], side.config.Host+path+"?resourceVersion=0"); err != nil {
				return nil, err
			}
		}
		wall[i] = time.Since(began) / time.Duration(w.Lists)
		after, err := cpuOf(side.pid)
		if err != nil {
			return nil, err
		}
		cpu[i] = (after - before) / time.Duration(w.Lists)
	}
	return []row{
		durations("list of all pods (protobuf, `resourceVersion=0`, gzip): server CPU", cpu[0], cpu[1], "≤ 0.25×"),
		durations("the same: time", wall[0], wall[1], "≤ 0.4×"),
	}, nil
}

// gets gets pods at the size's rate.
func (w *world) gets(ctx context.Context) ([]row, error) {
	var p50, p99, cpu [2]time.Duration
	for i, side := range w.sides() {
		clients, err := newClients(side.config, 1)
		if err != nil {
			return nil, err
		}
		defer closeClients(clients)
		n := int(w.For.Seconds()) * w.GetRate
		took := make([]time.Duration, n)
		before, err := cpuOf(side.pid)
		if err != nil {
			return nil, err
		}
		if err := w.getMany(n, func(j int) error {
			pod := w.pods[j*7919%len(w.pods)]
			began := time.Now()
			url := side.config.Host + "/api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name + "?resourceVersion=0"
			_, err := download(ctx, clients[0], url)
			took[j] = time.Since(began)
			return err
		}); err != nil {
			return nil, err
		}
		after, err := cpuOf(side.pid)
		if err != nil {
			return nil, err
		}
		slices.Sort(took)
		p50[i], p99[i], cpu[i] = took[n/2], took[n*99/100], after-before
	}
	what := fmt.Sprintf("get at %d/s: ", w.GetRate)
	return []row{
		durations(what+"p50", p50[0], p50[1], "≤ 1×"), durations(what+"p99", p99[0], p99[1], "≤ 1×"), durations(what+"server CPU", cpu[0], cpu[1], ""),
	}, nil
}

// getMany calls get n times, at the rate of gets, whether or not earlier calls have returned.
func (w *world) getMany(n int, get func(int) error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var work sync.WaitGroup
	var failed atomic.Pointer[error]
	for i := 0; i < n; <-tick.C {
		for range max(1, w.GetRate/100) {
			if i == n {
				break
			}
			j := i
			work.Go(func() {
				if err := get(j); err != nil {
					failed.Store(&err)
				}
			})
			i++
		}
	}
	work.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// restart has many informers start together, at the replica.
func (w *world) restart(ctx context.Context) ([]row, error) {
	side := w.sides()[1]
	clients, err := newClients(side.config, w.Restarts)
	if err != nil {
		return nil, err
	}
	defer closeClients(clients)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	received := w.upstream.Received()
	const query = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	var bytes, failed atomic.Int64
	var work sync.WaitGroup
	for i := range w.Restarts {
		work.Go(func() {
			body, err := open(ctx, clients[i/sharing], side.config.Host+path+query)
			if err != nil {
				failed.Add(1)
				return
			}
			defer body.Close()
			n := 0
			counted := &countingReader{body, &bytes}
			if err := events(counted, func() bool { n++; return n <= len(w.pods) }); err != nil { // and a bookmark
				failed.Add(1)
			}
		})
	}
	work.Wait()
	if n := failed.Load(); n > 0 {
		return nil, fmt.Errorf("%d of %d informers did not sync", n, w.Restarts)
	}
	up, down := float64(w.upstream.Received()-received), float64(bytes.Load())
	return []row{{
		fmt.Sprintf("%d informers start together (WatchList, most recent state): bytes that kube-apiserver sends", w.Restarts),
		fmt.Sprintf("%.1f MB", down/1e6), fmt.Sprintf("%.3f MB", up/1e6), fmt.Sprintf("%.3f%%", up/down*100), "≤ 0.5%",
	}}, nil
}

type result struct {
	cpu time.Duration
	p99 time.Duration
}

// watchAll has watchers of all pods.
func (w *world) watchAll(ctx context.Context) ([]row, error) {
	server, replica, err := w.watchBoth(ctx, func(int) string { return "" }, true)
	what := fmt.Sprintf("%d watchers of all pods, %d changes/s for %v: ", w.Watchers, w.Rate, w.For)
	return []row{
		durations(what+"server CPU", server.cpu, replica.cpu, "≤ 0.25×"), durations(what+"p99 to the last watcher", server.p99, replica.p99, "≤ 1×"),
	}, err
}

// watchNodes has watchers of the pods of one node each.
func (w *world) watchNodes(ctx context.Context) ([]row, error) {
	if len(w.nodes) == 0 {
		return nil, errors.New("no pod has a node")
	}
	server, replica, err := w.watchBoth(ctx, func(i int) string { return "&fieldSelector=spec.nodeName%3D" + w.nodes[i%len(w.nodes)] }, false)
	what := fmt.Sprintf("%d watchers of one node each: server CPU", w.Watchers)
	return []row{durations(what, server.cpu, replica.cpu, "≤ 0.1×")}, err
}

// watchBoth measures watchers at both servers. What the changes cost without watchers is taken off.
func (w *world) watchBoth(ctx context.Context, query func(i int) string, all bool) (server, replica result, err error) {
	var idle, busy [2]result
	for i, side := range w.sides() {
		if idle[i], err = w.watchers(ctx, side, 0, query, false); err == nil {
			busy[i], err = w.watchers(ctx, side, w.Watchers, query, all)
		}
		if err != nil {
			return server, replica, fmt.Errorf("%s: %w", side.name, err)
		}
		busy[i].cpu -= idle[i].cpu
	}
	return busy[0], busy[1], nil
}

// watchers opens n watches from now on, changes pods and returns what that cost the server, and, if all watchers see all
// changes, how long after its request the last watcher saw a change.
func (w *world) watchers(ctx context.Context, side side, n int, query func(i int) string, all bool) (result, error) {
	clients, err := newClients(side.config, max(n, 1))
	if err != nil {
		return result{}, err
	}
	defer closeClients(clients)
	list, err := w.admin.CoreV1().Pods("").List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return result{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	changes := int(w.For.Seconds()) * w.Rate
	last := make([]atomic.Int64, changes)
	var opened, work sync.WaitGroup
	var failed, seen atomic.Int64
	defer work.Wait()
	defer cancel()
	url := side.config.Host + path + "?watch=true&resourceVersion=" + list.ResourceVersion
	for i := range n {
		opened.Add(1)
		work.Go(func() {
			body, err := open(ctx, clients[i/sharing], url+query(i))
			opened.Done()
			if err != nil {
				failed.Add(1)
				return
			}
			defer body.Close()
			k := 0
			_ = events(body, func() bool { // ends with ctx
				raise(&last[k], time.Now().UnixNano())
				seen.Add(1)
				k++
				return k < changes
			})
		})
	}
	opened.Wait()
	if failed.Load() > 0 {
		return result{}, fmt.Errorf("%d of %d watches were not opened", failed.Load(), n)
	}
	before, err := cpuOf(side.pid)
	if err != nil {
		return result{}, err
	}
	sent := make([]int64, changes)
	if err := w.change(ctx, changes, func(i int) { sent[i] = time.Now().UnixNano() }); err != nil {
		return result{}, err
	}
	if all {
		err = awaitAll(ctx, &seen, int64(n)*int64(changes))
	} else {
		err = pause(ctx, time.Second)
	}
	if err != nil {
		return result{}, err
	}
	after, err := cpuOf(side.pid)
	r := result{cpu: after - before}
	if all {
		took := make([]int64, changes)
		for i := range took {
			took[i] = last[i].Load() - sent[i]
		}
		slices.Sort(took)
		r.p99 = time.Duration(took[changes*99/100])
	}
	return r, err
}

func raise(v *atomic.Int64, to int64) {
	for {
		now := v.Load()
		if now >= to || v.CompareAndSwap(now, to) {
			return
		}
	}
}

// awaitAll waits until a counter has reached n.
func awaitAll(ctx context.Context, seen *atomic.Int64, n int64) error {
	deadline := time.Now().Add(time.Minute)
	for seen.Load() < n {
		if time.Now().After(deadline) {
			return fmt.Errorf("the watchers have seen %d events, not %d", seen.Load(), n)
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
