package promises_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/shards"
	"github.com/tidings/tidings/tidingstest"
)

// Promise 12: of a sharded controller's keys, each is reconciled by one replica at a time, and by one soon after any
// failure. Package shards tests it with many faults, and package controller with random changes.

// onlyOne records who reconciles what, and fails the test if two reconcile a key at once.
type onlyOne struct {
	t       *testing.T
	mu      sync.Mutex
	running map[tidings.Key]string
	last    map[tidings.Key]string // who has reconciled it last
}

func (o *onlyOne) begin(key tidings.Key, by string) (end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if other := o.running[key]; other != "" {
		o.t.Errorf("%s and %s reconcile %s", other, by, key)
	}
	o.running[key], o.last[key] = by, by
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.running, key)
	}
}

// shares returns how many keys each replica was the last to reconcile.
func (o *onlyOne) shares() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	shares := map[string]int{}
	for _, by := range o.last {
		shares[by]++
	}
	return shares
}

// mortal is a transport that fails once the process is dead.
type mortal struct {
	http.RoundTripper
	dead *atomic.Bool
}

func (m mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.dead.Load() {
		return nil, errors.New("the process is dead")
	}
	return m.RoundTripper.RoundTrip(r)
}

// byShards and byElection decide which replica of a controller of pods works, by Leases of the same name.
func byShards(config *rest.Config) (controller.Elector, error) {
	replica, err := shards.New(config, "default", "pods", 24)
	if err != nil {
		return nil, err
	}
	replica.Logger = slog.New(slog.DiscardHandler)
	return replica, nil
}

func byElection(config *rest.Config) (controller.Elector, error) {
	return controller.NewLeaseElector(config, "default", "pods")
}

// start starts a replica of a controller of pods, and returns functions that kill it and that stop it.
func (o *onlyOne) start(
	server *tidingstest.Server, name string, elect func(*rest.Config) (controller.Elector, error),
) (kill, stop func()) {
	config, dead := server.Config(), new(atomic.Bool)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return mortal{next, dead} })
	factory, err := tidings.NewFactory(config, tidings.Options{})
	if err != nil {
		o.t.Fatal(err)
	}
	pods, err := tidings.Informer[pod](factory, tidings.Scope{})
	if err != nil {
		o.t.Fatal(err)
	}
	elector, err := elect(config)
	if err != nil {
		o.t.Fatal(err)
	}
	c := controller.New("pods", func(ctx context.Context, key tidings.Key) (controller.Result, error) {
		if dead.Load() {
			return controller.Result{}, nil
		}
		defer o.begin(key, name)()
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
		return controller.Result{}, nil
	}, controller.Options{Workers: 4})
	if err := controller.WatchKeys(c, pods); err != nil {
		o.t.Fatal(err)
	}
	manager := controller.NewManager(elector)
	if err := manager.Add(c); err != nil {
		o.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := factory.Start(ctx); err != nil {
		o.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- manager.Run(ctx) }()
	stop = func() {
		cancel()
		if err := errors.Join(<-ended, factory.Shutdown(context.Background())); err != nil {
			o.t.Error(err)
		}
	}
	return func() { dead.Store(true); stop() }, stop
}

// newPods returns a server with 200 pods, and a function that changes them all, and waits until that is reconciled.
func (o *onlyOne) newPods() (server *tidingstest.Server, touch func()) {
	server = tidingstest.NewServer(o.t, tidingstest.ServerOptions{})
	for i := range 200 {
		server.Create(newPod(fmt.Sprint("team-", i%50), fmt.Sprint("p-", i)))
	}
	return server, func() {
		for _, o := range server.Objects(corev1.SchemeGroupVersion.WithResource("pods")) {
			p := o.DeepCopyObject().(pod)
			p.SetLabels(map[string]string{"at": fmt.Sprint(time.Now().UnixNano())})
			server.Update(p)
		}
		time.Sleep(3 * time.Second)
	}
}

func newOnlyOne(t *testing.T) *onlyOne {
	return &onlyOne{t: t, running: map[tidings.Key]string{}, last: map[tidings.Key]string{}}
}

func TestOneOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOnlyOne(t)
		server, touch := o.newPods()
		kill, _ := o.start(server, "first", byShards)
		_, stopSecond := o.start(server, "second", byShards)
		time.Sleep(3 * time.Second)
		touch()
		if s := o.shares(); s["first"]+s["second"] != 200 || s["first"] == 0 || s["second"] == 0 {
			t.Errorf("shares: %v", s)
		}
		kill()
		time.Sleep(18 * time.Second)
		if s := o.shares(); s["second"] != 200 {
			t.Errorf("18 s after the first was killed: %v", s)
		}
		_, stopThird := o.start(server, "third", byShards)
		time.Sleep(3 * time.Second)
		touch()
		if s := o.shares(); s["second"]+s["third"] != 200 || s["third"] == 0 {
			t.Errorf("shares with the third: %v", s)
		}
		stopSecond()
		time.Sleep(3 * time.Second)
		if s := o.shares(); s["third"] != 200 {
			t.Errorf("3 s after the second was stopped: %v", s)
		}
		stopThird()
	})
}

// TestOneOwnerOfTwoKinds replaces the replicas of a program one after the other: those that elect a leader by those that
// share shards, and the other way round. The Lease has the same name for both.
func TestOneOwnerOfTwoKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOnlyOne(t)
		server, touch := o.newPods()
		workers := func(want ...string) {
			t.Helper()
			time.Sleep(20 * time.Second)
			touch()
			sum, s := 0, o.shares()
			for _, name := range want {
				sum += s[name]
			}
			if sum != 200 {
				t.Errorf("%v should have worked, but it was %v", want, s)
			}
		}
		_, stopFirst := o.start(server, "leader 1", byElection)
		_, stopSecond := o.start(server, "leader 2", byElection)
		workers("leader 1", "leader 2")
		_, stopThird := o.start(server, "shards 1", byShards)
		workers("leader 1", "leader 2")
		stopFirst()
		_, stopFourth := o.start(server, "shards 2", byShards)
		time.Sleep(20 * time.Second)
		stopSecond()
		workers("shards 1", "shards 2")
		_, stopFifth := o.start(server, "leader 3", byElection)
		workers("shards 1", "shards 2")
		stopThird()
		workers("shards 2")
		stopFourth()
		workers("leader 3")
		stopFifth()
	})
}

// TestShardsOfACollection reads a collection in n shards beside an informer of all of it, while it changes, watches break,
// and the history that they need is lost. Together the shards have everything, and no two have the same object.
func TestShardsOfACollection(t *testing.T) {
	testseed.Each(t, 8, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { shardsOfACollection(t, rand.New(rand.NewPCG(seed, 0))) })
	})
}

func shardsOfACollection(t *testing.T, random *rand.Rand) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{NoWatchList: random.IntN(2) == 0})
	resource := corev1.SchemeGroupVersion.WithResource("pods")
	change := func() {
		p := newPod(fmt.Sprint("team-", random.IntN(5)), fmt.Sprint("p-", random.IntN(12)))
		switch _, exists := server.Versions(resource)[tidings.Key{Namespace: p.Namespace, Name: p.Name}]; {
		case !exists:
			server.Create(p)
		case random.IntN(3) == 0:
			server.Delete(p)
		default:
			server.Update(p)
		}
	}
	for range 40 {
		change()
	}
	factory, err := tidings.NewFactory(server.Config(), tidings.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := 1 + random.IntN(4)
	shard := tidings.Shard{Of: n}
	if random.IntN(2) == 0 {
		shard.By = tidings.ShardByNamespace
	}
	var informers []*tidings.SharedInformer[pod]
	for i := -1; i < n; i++ {
		scope := tidings.Scope{}
		if i >= 0 {
			scope.Shard, scope.Shard.Indexes = shard, []int{i}
		}
		inf, err := tidings.Informer[pod](factory, scope)
		if err != nil {
			t.Fatal(err)
		}
		informers = append(informers, inf)
	}
	if err := factory.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		switch random.IntN(8) {
		case 0:
			server.BreakConnections()
		case 1:
			server.Compact()
			server.BreakConnections()
		case 2:
			server.SendBookmarks(resource)
		}
		change()
		time.Sleep(time.Duration(random.IntN(3)) * time.Minute / 2)
		synctest.Wait()
		if random.IntN(3) == 0 {
			time.Sleep(2 * time.Minute) // whatever has failed is repaired by then
			checkShards(t, server.Versions(resource), informers)
		}
	}
	if err := factory.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// checkShards compares an informer of everything with the server, and with those of the shards.
func checkShards(t *testing.T, want map[tidings.Key]string, informers []*tidings.SharedInformer[pod]) {
	t.Helper()
	whole, together := map[tidings.Key]string{}, map[tidings.Key]string{}
	for i, inf := range informers {
		for key, p := range inf.Snapshot().All() {
			switch {
			case i == 0:
				whole[key] = p.ResourceVersion
			case together[key] != "":
				t.Errorf("%s is in two shards", key)
			default:
				together[key] = p.ResourceVersion
			}
		}
		if err := inf.Fresh(); err != nil {
			t.Errorf("%s: %v", inf.Name(), err)
		}
	}
	if !maps.Equal(whole, want) || !maps.Equal(together, want) {
		t.Errorf("%d shards have %d objects, the whole %d, the server %d",
			len(informers)-1, len(together), len(whole), len(want))
	}
}
