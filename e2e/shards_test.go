package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/operator"
	"github.com/tidings/tidings/tidingstest/controlplane"
)

// sharers are the replicas of an operator that share ConfigMaps.
type sharers struct {
	t         *testing.T
	plane     *controlplane.ControlPlane
	client    kubernetes.Interface
	namespace string

	mu      sync.Mutex
	running map[tidings.Key]string
	seen    map[tidings.Key]string // the round that was last reconciled
	by      map[tidings.Key]string // by whom
	changed chan struct{}          // gets a value after a reconcile; has a buffer of one
}

// eventually waits until cond returns true, and checks that whenever changed gets a value.
func eventually(t *testing.T, what string, changed <-chan struct{}, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !cond() {
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("waited %v in vain until %s", patience, what)
		}
	}
}

// signal gives a channel a value, unless it has one.
func signal(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

type severable struct {
	http.RoundTripper
	cut *atomic.Bool
}

func (s severable) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.cut.Load() {
		return nil, errors.New("the network is cut")
	}
	return s.RoundTripper.RoundTrip(r)
}

// start starts a replica. After cut, its requests fail; what it watches goes on.
func (s *sharers) start(name string) (cut, stop func()) {
	s.t.Helper()
	severed := new(atomic.Bool)
	config := s.plane.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return severable{next, severed} })
	op, err := operator.New(config, operator.Options{
		Lease: tidings.Key{Namespace: s.namespace, Name: "shared"}, Shards: 24,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	cms, err := tidings.Informer[*corev1.ConfigMap](op.Factory, tidings.Scope{
		Namespaces: []string{s.namespace}, Labels: "shared",
	})
	if err != nil {
		s.t.Fatal(err)
	}
	c := controller.New("shared", func(_ context.Context, key tidings.Key) (controller.Result, error) {
		s.begin(key, name)
		time.Sleep(5 * time.Millisecond) // so that reconciles overlap, if they can
		cm, _ := cms.Get(key)
		s.end(key, name, cm)
		return controller.Result{}, nil
	}, controller.Options{Workers: 4, ShardBy: func(key tidings.Key) string { return key.Name }})
	if err := errors.Join(controller.WatchKeys(c, cms), op.Manager.Add(c)); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- op.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("%s: %v", name, err)
		}
	})
	s.t.Cleanup(stop)
	return func() { severed.Store(true) }, stop
}

func (s *sharers) begin(key tidings.Key, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.running[key]; other != "" {
		s.t.Errorf("%s and %s reconcile %s at once", other, name, key)
	}
	s.running[key] = name
}

func (s *sharers) end(key tidings.Key, name string, cm *corev1.ConfigMap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, key)
	s.seen[key], s.by[key] = "gone", name
	if cm != nil {
		s.seen[key] = cm.Data["round"]
	}
	signal(s.changed)
}

// change changes all ConfigMaps, and waits until that is reconciled. It returns who has done so, and how long it took.
func (s *sharers) change(round string) (by map[string]int, took time.Duration) {
	s.t.Helper()
	began := time.Now()
	objects := s.client.CoreV1().ConfigMaps(s.namespace)
	for i := range 40 {
		cm := &corev1.ConfigMap{Data: map[string]string{"round": round}}
		cm.Name, cm.Labels = fmt.Sprint("map-", i), map[string]string{"shared": "true"}
		if _, err := objects.Update(s.t.Context(), cm, metav1.UpdateOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
	eventually(s.t, "all have seen round "+round, s.changed, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		by = map[string]int{}
		for key, name := range s.by {
			if s.seen[key] != round {
				return false
			}
			by[name]++
		}
		return len(s.by) == 40
	})
	return by, time.Since(began)
}

// TestShards cuts one of three replicas off, and adds a fourth meanwhile, while the ConfigMaps that they share change. No
// two reconcile one at the same time, and no change is left out.
func TestShards(t *testing.T) {
	cp := plane(t)
	client := clientFor(t, cp.Config())
	s := &sharers{t: t, plane: cp, client: client, namespace: newNamespace(t, client)}
	s.running, s.seen, s.by = map[tidings.Key]string{}, map[tidings.Key]string{}, map[tidings.Key]string{}
	s.changed = make(chan struct{}, 1)
	for i := range 40 {
		cm := &corev1.ConfigMap{}
		cm.Name, cm.Labels = fmt.Sprint("map-", i), map[string]string{"shared": "true"}
		if _, err := client.CoreV1().ConfigMaps(s.namespace).Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.start("first")
	s.start("second")
	cutThird, _ := s.start("third")
	round := 0
	next := func() (by map[string]int, took time.Duration) {
		t.Helper()
		round++
		return s.change(fmt.Sprint(round))
	}
	for by := map[string]int{}; len(by) < 3; {
		by, _ = next()
	}
	cutThird()
	cut := time.Now()
	s.start("fourth")
	longest := time.Duration(0)
	for by := map[string]int{"third": 1}; by["third"] > 0 || by["fourth"] == 0; {
		var took time.Duration
		if by, took = next(); time.Since(cut) > patience {
			t.Fatalf("after %v the ConfigMaps are reconciled by %v", patience, by)
		}
		longest = max(longest, took)
	}
	t.Logf("the third was replaced after %v, in %d rounds; a change took %v at most", time.Since(cut), round, longest)
}

// TestShardsOfACollection has a server that filters by shard, and one that does not. Together the shards have everything,
// and each has its part.
func TestShardsOfACollection(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane, which -short does without")
	}
	t.Run("filtered by the server", func(t *testing.T) {
		gates := map[string]bool{"ShardedListAndWatch": true}
		shardsOfACollection(t, controlplane.Start(t, controlplane.Options{FeatureGates: gates, UnsafeNoFsync: true}), true)
	})
	t.Run("filtered by the client", func(t *testing.T) { shardsOfACollection(t, plane(t), false) })
}

func shardsOfACollection(t *testing.T, cp *controlplane.ControlPlane, filters bool) {
	client := clientFor(t, cp.Config())
	namespace := newNamespace(t, client)
	objects := client.CoreV1().ConfigMaps(namespace)
	create := func(i int) {
		t.Helper()
		cm := &corev1.ConfigMap{}
		cm.Name, cm.Labels = fmt.Sprint("map-", i), map[string]string{"sharded": "true"}
		if _, err := objects.Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 30 {
		create(i)
	}
	f := startFactory(t, cp.Config(), tidings.Options{Backoff: quick})
	var parts []*tidings.SharedInformer[*corev1.ConfigMap]
	for i := range 3 {
		shard := tidings.Shard{Of: 3, Indexes: []int{i}}
		scope := tidings.Scope{Namespaces: []string{namespace}, Labels: "sharded", Shard: shard}
		parts = append(parts, informer[*corev1.ConfigMap](t, f, scope))
		list, err := objects.List(t.Context(), metav1.ListOptions{LabelSelector: "sharded", ShardSelector: shard.String()})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(list.Items); filters != (n < 30) {
			t.Errorf("the server filters: %v, but lists %d of 30", filters, n)
		}
	}
	changed := make(chan struct{}, 1)
	for _, part := range parts {
		if _, err := part.HandleDeltas("signal", func(tidings.Delta[*corev1.ConfigMap]) { signal(changed) }); err != nil {
			t.Fatal(err)
		}
	}
	same := func() bool {
		list, err := objects.List(t.Context(), metav1.ListOptions{LabelSelector: "sharded"})
		if err != nil {
			t.Fatal(err)
		}
		want, got := map[string]string{}, map[string]string{}
		for _, cm := range list.Items {
			want[cm.Name] = cm.ResourceVersion
		}
		for _, part := range parts {
			n := 0
			for key, cm := range part.Snapshot().All() {
				n++
				if got[key.Name] != "" {
					return false // for a moment, if it was made again
				}
				got[key.Name] = cm.ResourceVersion
			}
			if n == 0 {
				return false
			}
		}
		return maps.Equal(got, want)
	}
	eventually(t, "the shards have everything", changed, same)
	for i := range 10 { // another uid, so another shard
		if err := objects.Delete(t.Context(), fmt.Sprint("map-", i), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		create(i)
	}
	eventually(t, "the shards have everything after changes", changed, same)
}
