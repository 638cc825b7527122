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

	"github.com/tidings/tidings/serve/internal/launch"
)

// row is one line of the page.
type row struct{ what, server, replica, ratio, target string }

func measure(ctx context.Context, s size, only string) (page string, err error) {
	w := &world{size: s}
	defer func() { err = errors.Join(err, w.close()) }()
	measurements := []struct {
		name  string
		run   func(context.Context) ([]row, error)
		alone bool // without the world
	}{
		{"memory", w.memory, false}, {"list", w.lists, false}, {"get", w.gets, false}, {"restart", w.restart, false},
		{"watch", w.watchAll, false}, {"node", w.watchNodes, false}, {"kill", w.kill, false},
		{"creations", w.creations, true}, {"many", w.many, true},
	}
	chosen := map[string]bool{}
	for _, m := range measurements {
		chosen[m.name] = only == ""
	}
	if only != "" {
		for name := range strings.SplitSeq(only, ",") {
			if _, known := chosen[name]; !known {
				return "", fmt.Errorf("-only %s: there is no measurement %q", only, name)
			}
			chosen[name] = true
		}
	}
	var rows []row
	for _, m := range measurements {
		if !chosen[m.name] {
			continue
		}
		if err := w.prepare(ctx, m.alone); err != nil {
			return "", err
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
	full, err := launch.Resident(w.replica.PID())
	server, replica := w.fullServer-w.emptyServer, full-w.emptyReplica
	return []row{{
		"resident memory that the pods take", fmt.Sprintf("%.0f MB", server/1e6), fmt.Sprintf("%.0f MB", replica/1e6),
		ratio(replica, server), "≤ 0.15×",
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
		before, err := launch.CPU(side.pid)
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
		after, err := launch.CPU(side.pid)
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

// gets gets pods at the size's rate, or at the highest half, quarter, … of it that kube-apiserver answers in time.
func (w *world) gets(ctx context.Context) ([]row, error) {
	sides, rate := w.sides(), w.GetRate
	server, err := w.getMany(ctx, sides[0], rate)
	for errors.Is(err, errOverloaded) && rate > 1 {
		rate /= 2
		server, err = w.getMany(ctx, sides[0], rate)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sides[0].name, err)
	}
	replica, err := w.getMany(ctx, sides[1], rate)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sides[1].name, err)
	}
	what := fmt.Sprintf("get at %d/s: ", rate)
	if rate < w.GetRate {
		what = fmt.Sprintf("get at %d/s, since kube-apiserver does not keep up with %d/s here: ", rate, w.GetRate)
	}
	return []row{
		durations(what+"p50", server.p50, replica.p50, "≤ 1×"), durations("the same: p99", server.p99, replica.p99,
			"≤ 1×"),
		durations("the same: server CPU", server.cpu, replica.cpu, ""),
	}, nil
}

// errOverloaded says that a server did not answer requests at the rate at which they came.
var errOverloaded = errors.New("the server does not keep up with the requests")

const (
	// getBurst is how often a second gets are sent.
	getBurst = 100
	// keepsUp is within what time after the last get a server that keeps up has answered all.
	keepsUp = time.Second
)

type getResult struct{ p50, p99, cpu time.Duration }

// getMany gets pods at a rate, whether or not earlier gets have been answered.
func (w *world) getMany(ctx context.Context, side side, rate int) (getResult, error) {
	clients, err := newClients(side.config, 1)
	if err != nil {
		return getResult{}, err
	}
	defer closeClients(clients)
	before, err := launch.CPU(side.pid)
	if err != nil {
		return getResult{}, err
	}
	n := max(1, int(w.For.Seconds()*float64(rate)))
	took := make([]time.Duration, n)
	var work sync.WaitGroup
	var failed atomic.Pointer[error]
	began := time.Now()
	for i := range n {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(rate)).Truncate(time.Second / getBurst)
		if err := pause(ctx, time.Until(due)); err != nil {
			return getResult{}, err
		}
		work.Go(func() {
			pod := w.pods[i*7919%len(w.pods)]
			url := side.config.Host + "/api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name + "?resourceVersion=0"
			sent := time.Now()
			if _, err := download(ctx, clients[0], url); err != nil {
				failed.Store(&err)
			}
			took[i] = time.Since(sent)
		})
	}
	last := time.Now()
	work.Wait()
	switch err := failed.Load(); {
	case err != nil && strings.Contains((*err).Error(), "429"), time.Since(last) > keepsUp:
		return getResult{}, errOverloaded
	case err != nil:
		return getResult{}, *err
	}
	after, err := launch.CPU(side.pid)
	slices.Sort(took)
	return getResult{took[n/2], took[n*99/100], after - before}, err
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
		fmt.Sprintf("%d informers start together (WatchList, most recent state): bytes that kube-apiserver sends",
			w.Restarts),
		fmt.Sprintf("%.1f MB", down/1e6), fmt.Sprintf("%.3f MB", up/1e6), fmt.Sprintf("%.3f%%", up/down*100),
		"≤ 0.5%",
	}}, nil
}

type result struct {
	cpu  time.Duration
	p99  time.Duration
	rate float64 // of the changes, a second
}

// watchAll has watchers of all pods.
func (w *world) watchAll(ctx context.Context) ([]row, error) {
	server, replica, rate, err := w.watchBoth(ctx, func(int) string { return "" }, true)
	what := fmt.Sprintf("%d watchers of all pods, %d changes/s for %v: ", w.Watchers, rate, w.For)
	if rate < w.Rate {
		what = fmt.Sprintf("%d watchers of all pods, %d changes/s for %v, "+
			"as kube-apiserver does not take %d/s with them "+
			"here: ", w.Watchers, rate, w.For, w.Rate)
	}
	return []row{
		durations(what+"server CPU", server.cpu, replica.cpu, "≤ 0.25×"),
		durations("the same: p99 to the last watcher", server.p99, replica.p99, "≤ 1×"),
	}, err
}

// watchNodes has watchers of the pods of one node each.
func (w *world) watchNodes(ctx context.Context) ([]row, error) {
	if len(w.nodes) == 0 {
		return nil, errors.New("no pod has a node")
	}
	node := func(i int) string { return "&fieldSelector=spec.nodeName%3D" + w.nodes[i%len(w.nodes)] }
	server, replica, rate, err := w.watchBoth(ctx, node, false)
	what := fmt.Sprintf("%d watchers of one node each, %d changes/s for %v: server CPU", w.Watchers, rate, w.For)
	return []row{durations(what, server.cpu, replica.cpu, "≤ 0.1×")}, err
}

// idleRounds is how often what the changes cost without watchers is measured on each side of the measurement with them.
// It varies more than what few watchers cost.
const idleRounds = 2

// watchBoth measures watchers at both servers, with changes at a rate that kube-apiserver takes while it serves them:
// otherwise a replica would be measured with more changes a second than the server was. What the changes cost without
// watchers is taken off.
func (w *world) watchBoth(ctx context.Context, query func(i int) string, all bool) (
	server, replica result, rate int, err error,
) {
	probe := *w
	probe.For = w.For / 4
	probed, err := probe.watchers(ctx, w.sides()[0], w.Watchers, query, false)
	if err != nil {
		return server, replica, 0, err
	}
	paced := *w
	if probed.rate < 0.95*float64(w.Rate) {
		paced.Rate = max(1, int(0.9*probed.rate))
	}
	var busy [2]result
	for i, side := range w.sides() {
		if busy[i], err = paced.watchersAlone(ctx, side, query, all); err != nil {
			return server, replica, 0, fmt.Errorf("%s: %w", side.name, err)
		}
	}
	return busy[0], busy[1], paced.Rate, nil
}

// watchersAlone measures watchers, without what the changes cost before and after.
func (w *world) watchersAlone(
	ctx context.Context, side side, query func(i int) string, all bool,
) (r result, err error) {
	var idle time.Duration
	for round := range 2 * idleRounds {
		if round == idleRounds {
			if r, err = w.watchers(ctx, side, w.Watchers, query, all); err != nil {
				return r, err
			}
		}
		without, err := w.watchers(ctx, side, 0, query, false)
		if err != nil {
			return r, err
		}
		idle += without.cpu
	}
	r.cpu -= idle / (2 * idleRounds)
	return r, nil
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
	changes := max(1, int(w.For.Seconds()*float64(w.Rate)))
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
	before, err := launch.CPU(side.pid)
	if err != nil {
		return result{}, err
	}
	began := time.Now()
	sent := make([]int64, changes)
	if err := w.change(ctx, changes, func(i int) { sent[i] = time.Now().UnixNano() }); err != nil {
		return result{}, err
	}
	took := time.Since(began)
	if all {
		err = awaitAll(ctx, &seen, int64(n)*int64(changes))
	} else {
		err = pause(ctx, time.Second)
	}
	if err != nil {
		return result{}, err
	}
	after, err := launch.CPU(side.pid)
	r := result{cpu: after - before, rate: float64(changes) / took.Seconds()}
	if all {
		late := make([]int64, changes)
		for i := range late {
			late[i] = last[i].Load() - sent[i]
		}
		slices.Sort(late)
		r.p99 = time.Duration(late[changes*99/100])
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
