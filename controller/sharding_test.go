package controller_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/client"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/shards"
	"github.com/tidings/tidings/tidingstest"
)

// fleet are replicas that share the ConfigMaps of a server. A reconcile copies a ConfigMap's revision to a label.
type fleet struct {
	t      *testing.T
	server *tidingstest.Server
	by     func(tidings.Key) string
	watch  func(*controller.Controller, *tidings.SharedInformer[*corev1.ConfigMap]) error

	mu      sync.Mutex
	live    []*sharer
	running map[tidings.Key]*sharer
	seen    map[tidings.Key]string // the revision that was last reconciled, or "gone"
	all     revisions
}

// sharer is a replica.
type sharer struct {
	fleet      *fleet
	maps       *tidings.SharedInformer[*corev1.ConfigMap]
	writes     *client.Client[*corev1.ConfigMap]
	replica    *shards.Replica
	controller *controller.Controller
	manager    *controller.Manager
	stop       func()
	dead       atomic.Bool
	// written are the versions that it has written for a key.
	written sync.Map
}

// wrap wraps a transport, so that it fails once the replica is dead.
func (s *sharer) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if s.dead.Load() {
			return nil, errors.New("the process is dead")
		}
		return next.RoundTrip(r)
	})
}

func newFleet(t *testing.T) *fleet {
	return &fleet{
		t: t, server: tidingstest.NewServer(t, tidingstest.ServerOptions{}),
		running: map[tidings.Key]*sharer{}, seen: map[tidings.Key]string{}, all: revisions{},
		watch: func(c *controller.Controller, maps *tidings.SharedInformer[*corev1.ConfigMap]) error {
			return controller.WatchKeys(c, maps)
		},
	}
}

func (f *fleet) start() *sharer {
	s := &sharer{fleet: f}
	config := f.server.Config()
	config.Wrap(s.wrap)
	silent := slog.New(slog.DiscardHandler)
	factory := must(tidings.NewFactory(config, tidings.Options{Logger: silent}))
	s.maps = must(tidings.Informer[*corev1.ConfigMap](factory, tidings.Scope{}))
	s.replica = must(shards.New(config, "default", "maps", 24))
	s.replica.Logger = silent
	tracked := f.server.Config()
	tracked.Wrap(s.wrap)
	tracked.Wrap(controller.TrackWrites)
	s.writes = must(client.New[*corev1.ConfigMap](tracked, corev1.SchemeGroupVersion.WithResource("configmaps")))
	s.controller = controller.New("maps", s.reconcile, controller.Options{Workers: 3, Logger: silent, ShardBy: f.by})
	must(0, f.watch(s.controller, s.maps))
	s.manager = controller.NewManager(s.replica)
	must(0, s.manager.Add(s.controller))
	ctx, cancel := context.WithCancel(context.Background())
	must(0, factory.Start(ctx))
	ended := make(chan error, 1)
	go func() { ended <- s.manager.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		f.mu.Lock()
		f.live = slices.DeleteFunc(f.live, func(other *sharer) bool { return other == s })
		f.mu.Unlock()
		cancel()
		if err := <-ended; err != nil {
			f.t.Error(err)
		}
		if err := factory.Shutdown(context.Background()); err != nil {
			f.t.Error(err)
		}
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live = append(f.live, s)
	f.excuseDeleted()
	return s
}

// excuseDeleted excuses that the deletions so far are not reconciled, since the new replica will know nothing of them. The
// caller holds mu.
func (f *fleet) excuseDeleted() {
	for key, revision := range f.all {
		if revision == "gone" {
			f.seen[key] = "gone"
		}
	}
}

// kill ends the replica without a word.
func (s *sharer) kill() {
	s.dead.Store(true)
	s.fleet.mu.Lock()
	for key, by := range s.fleet.running {
		if by == s {
			delete(s.fleet.running, key)
		}
	}
	s.fleet.mu.Unlock()
	s.stop()
}

func (s *sharer) reconcile(ctx context.Context, key tidings.Key) (controller.Result, error) {
	if s.dead.Load() {
		return controller.Result{}, nil
	}
	defer s.fleet.begin(s, key)()
	select { // so that reconciles overlap, if they can
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
	}
	cm, ok := s.maps.Get(key)
	if !ok {
		s.fleet.note(key, "gone")
		return controller.Result{}, nil
	}
	if written, ok := s.written.Load(key); ok && object.OlderResourceVersion(cm.ResourceVersion, written.(string)) {
		s.fleet.t.Errorf("%s: version %s is read after %s was written", key, cm.ResourceVersion, written)
	}
	revision := cm.Data["revision"]
	if cm.Labels["seen"] != revision {
		cm = cm.DeepCopy()
		cm.Labels = map[string]string{"seen": revision}
		made, err := s.writes.Update(ctx, cm)
		if err != nil {
			return controller.Result{}, err
		}
		s.written.Store(key, made.ResourceVersion)
	}
	s.fleet.note(key, revision)
	return controller.Result{}, nil
}

// begin records a reconcile, and checks that no other replica's runs.
func (f *fleet) begin(s *sharer, key tidings.Key) (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if other := f.running[key]; other != nil && !s.dead.Load() {
		f.t.Errorf("%s is reconciled by two at once", key)
	}
	f.running[key] = s
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.running[key] == s {
			delete(f.running, key)
		}
	}
}

func (f *fleet) note(key tidings.Key, revision string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[key] = revision
}

func (f *fleet) replicas() []*sharer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.live)
}

// stopAll stops all replicas at once.
func (f *fleet) stopAll() {
	var stopping sync.WaitGroup
	for _, s := range f.replicas() {
		stopping.Go(s.stop)
	}
	stopping.Wait()
}

// revisions are the ConfigMaps of a test.
type revisions map[tidings.Key]string

func (r revisions) set(f *fleet, key tidings.Key, revision string) {
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Data:       map[string]string{"revision": revision},
	}
	switch before := r[key]; {
	case revision == "gone":
		f.server.Delete(cm)
	case before == "" || before == "gone":
		f.server.Create(cm)
	default:
		f.server.Update(cm)
	}
	r[key] = revision
}

// check fails the test if a key was not reconciled as it is.
func (r revisions) check(f *fleet) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	forgotten := 0
	for key, revision := range r {
		if f.seen[key] != revision {
			forgotten++
			if forgotten < 4 {
				f.t.Errorf("%s is %s, last reconciled as %q", key, revision, f.seen[key])
			}
		}
	}
	if forgotten > 0 {
		f.t.Errorf("%d of %d keys are forgotten", forgotten, len(r))
	}
}

// TestShards kills, stops and adds replicas at random while objects come, change and go. No key is reconciled by two at
// once, none is reconciled before the cache has seen what this replica wrote for it, and none is forgotten.
func TestShards(t *testing.T) {
	testseed.Each(t, 5, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { simulateFleet(t, seed) })
	})
}

func simulateFleet(t *testing.T, seed uint64) {
	f, number := newFleet(t), rand.New(rand.NewPCG(seed, 0)).IntN
	all := f.all
	if seed%2 == 0 {
		f.by = func(key tidings.Key) string { return key.Name }
	}
	for i := range 120 {
		all.set(f, tidings.Key{Namespace: fmt.Sprint("ns-", i%40), Name: fmt.Sprint("map-", i)}, "1")
	}
	keys := slices.SortedFunc(maps.Keys(f.all), tidings.Key.Compare)
	for range 3 {
		f.start()
	}
	for i := range 400 {
		time.Sleep(time.Duration(number(200)) * time.Millisecond)
		key, revision := keys[number(len(keys))], fmt.Sprint(i)
		if number(5) == 0 && all[key] != "gone" {
			revision = "gone"
		}
		all.set(f, key, revision)
		live := f.replicas()
		switch number(50) {
		case 0:
			if len(live) > 1 {
				live[number(len(live))].kill()
			}
		case 1:
			if len(live) > 1 {
				go live[number(len(live))].stop()
			}
		case 2, 3:
			if len(live) < 5 {
				f.start()
			}
		}
	}
	time.Sleep(30 * time.Second)
	all.check(f)
	for _, s := range f.replicas() {
		if err := s.manager.Readyz(); err != nil {
			t.Error(err)
		}
	}
	f.stopAll()
}

// TestShardsAreReconciledByOne adds a replica: it reconciles what it has gained, and the other one nothing more.
func TestShardsAreReconciledByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		all := f.all
		for i := range 200 {
			all.set(f, tidings.Key{Namespace: fmt.Sprint("ns-", i), Name: "a"}, "1")
		}
		first := f.start()
		time.Sleep(10 * time.Second)
		before := first.controller.Stats().Reconciles
		second := f.start()
		time.Sleep(10 * time.Second)
		all.check(f)
		moved, after := second.controller.Stats().Reconciles, first.controller.Stats().Reconciles
		if moved == 0 || moved > 150 || after != before {
			t.Errorf("the first has reconciled %d and then %d, the second %d", before, after, moved)
		}
		f.stopAll()
	})
}

// TestShardByFails has functions that panic, or change their mind.
func TestShardByFails(t *testing.T) {
	var calls atomic.Int64
	for want, by := range map[string]func(tidings.Key) string{
		"ShardBy panicked for ns/a":                       func(tidings.Key) string { panic("oops") },
		"ShardBy does not always return the same for ns/": func(tidings.Key) string { return fmt.Sprint(calls.Add(1)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			all := f.all
			f.by = by
			all.set(f, tidings.Key{Namespace: "ns", Name: "a"}, "1")
			s := f.start()
			time.Sleep(10 * time.Second)
			all.check(f)
			err := s.controller.Readyz()
			if err == nil || !strings.Contains(err.Error(), want) || s.controller.Stats().ShardByProblems == 0 {
				t.Errorf("got %v, want %s", err, want)
			}
			f.stopAll()
		})
	}
}

// opaque is a cache of which only the methods of controller.Cache are known.
type opaque struct {
	controller.Cache[*corev1.ConfigMap]
}

// TestGainedShardsAreMapped has controllers that watch with a mapper, and one whose cache is of another kind: what is in
// the cache is reconciled once shards are gained, and a deleted object is as well.
func TestGainedShardsAreMapped(t *testing.T) {
	watches := map[string]func(*controller.Controller, *tidings.SharedInformer[*corev1.ConfigMap]) error{
		"mapper": func(c *controller.Controller, maps *tidings.SharedInformer[*corev1.ConfigMap]) error {
			return controller.Watch(c, maps, controller.Self[*corev1.ConfigMap])
		},
		"mapper of another cache": func(c *controller.Controller, maps *tidings.SharedInformer[*corev1.ConfigMap]) error {
			return controller.Watch(c, opaque{maps}, controller.Self[*corev1.ConfigMap])
		},
		"keys of another cache": func(c *controller.Controller, maps *tidings.SharedInformer[*corev1.ConfigMap]) error {
			return controller.WatchKeys(c, opaque{maps})
		},
	}
	for what, watch := range watches {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			f.watch = watch
			for i := range 50 {
				f.all.set(f, tidings.Key{Namespace: fmt.Sprint("ns-", i), Name: "a"}, "1")
			}
			first, second := f.start(), f.start()
			time.Sleep(10 * time.Second)
			f.all.check(f)
			if first.controller.Stats().Reconciles == 0 || second.controller.Stats().Reconciles == 0 {
				t.Errorf("%s: one replica has done nothing", what)
			}
			first.dead.Store(true)
			for i := range 50 {
				f.all.set(f, tidings.Key{Namespace: fmt.Sprint("ns-", i), Name: "a"}, "gone")
			}
			first.stop()
			time.Sleep(20 * time.Second)
			f.all.check(f)
			f.stopAll()
		})
	}
}
