package promises_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// streamedCluster is a cluster whose lists take time: hook is called before each object that is listed.
type streamedCluster struct {
	*cluster
	hook func(sent int) error
}

func (c *streamedCluster) List(_ context.Context, _ source.ListOptions[pod], each func(pod) error) (source.ListResult, error) {
	c.mu.Lock()
	failure, version := c.failure, strconv.Itoa(c.version)
	var pods []pod
	for _, p := range c.pods {
		pods = append(pods, p)
	}
	c.lists++
	c.mu.Unlock()
	if failure != nil {
		return source.ListResult{}, failure
	}
	slices.SortFunc(pods, func(a, b pod) int { return object.KeyOf(a).Compare(object.KeyOf(b)) })
	for i, p := range pods {
		if err := c.hook(i); err != nil {
			return source.ListResult{}, err
		}
		if err := each(p); err != nil {
			return source.ListResult{}, err
		}
	}
	return source.ListResult{ResourceVersion: version}, nil
}

func (c *streamedCluster) start(t *testing.T, budget int64) *tidings.SharedInformer[pod] {
	t.Helper()
	inf, err := tidings.NewInformer[pod](c, tidings.InformerOptions[pod]{
		Name: "pods", Options: tidings.Options{MemoryBudget: budget, NoWatchList: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := inf.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return inf
}

func podOn(namespace, name string) pod {
	p := newPod(namespace, name)
	p.Spec.NodeName = "node-" + name[len(name)-1:]
	return p
}

// TestFirstListIsToldAsItStreams checks a list that exceeds the budget while it is being read:
// handlers are notified of what has arrived, and find it in the store and the indexes, while the
// informer has not synced. Nothing is opened for them.
func TestFirstListIsToldAsItStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		c := &streamedCluster{cluster: newCluster()}
		for i := range n {
			c.write(podOn("a", fmt.Sprintf("%04d", i)))
		}
		inf := c.start(t, 1)
		index := inf.AddIndex("node", func(p pod) []string { return []string{p.Spec.NodeName} })
		told := 0
		mustAdd(t, inf, tidings.HandlerFuncs[pod]{Add: func(p pod, initial bool) {
			told++
			if got, ok := inf.Get(object.KeyOf(p)); !ok || got != p || !initial {
				t.Errorf("told of %s, initial %t, which is not in the store", p.Name, initial)
			}
			if told%100 == 0 && !slices.Contains(slices.Collect(index.All(p.Spec.NodeName)), p) {
				t.Errorf("told of %s, which is not in the index", p.Name)
			}
		}}, tidings.HandlerOptions{})
		var late *tidings.Registration
		lateTold := 0
		c.hook = func(sent int) error {
			if sent%100 != 0 || sent == 0 {
				return nil
			}
			synctest.Wait()
			snap := inf.Snapshot()
			if inf.HasSynced() || snap.ResourceVersion() != "" || snap.Len() != told || told < sent/2 {
				t.Errorf("after %d pods: synced %t at %q, %d in the store, %d told", sent, inf.HasSynced(), snap.ResourceVersion(), snap.Len(), told)
			}
			if sent == n/2 {
				late = mustAdd(t, inf, tidings.HandlerFuncs[pod]{Add: func(pod, bool) { lateTold++ }}, tidings.HandlerOptions{})
			}
			return nil
		}
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := late.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if told != n || lateTold != n || inf.Snapshot().Len() != n || inf.Snapshot().ResourceVersion() != strconv.Itoa(n) {
			t.Errorf("%d and %d of %d told, %d in the store at %q", told, lateTold, n, inf.Snapshot().Len(), inf.Snapshot().ResourceVersion())
		}
		if st := inf.Status().Memory; st.Folded != n {
			t.Errorf("%d of %d folded", st.Folded, n)
		}
	})
}

// TestRestoreBetweenFirstLists restores the cluster from a backup after a first list was interrupted.
func TestRestoreBetweenFirstLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, kept = 600, 300
		c := &streamedCluster{cluster: newCluster()}
		var backup []pod
		for i := range n {
			if p := c.write(podOn("a", fmt.Sprintf("%04d", i))); i < kept {
				backup = append(backup, p)
			}
		}
		var reported []error
		inf, err := tidings.NewInformer[pod](c, tidings.InformerOptions[pod]{Name: "pods", Options: tidings.Options{
			MemoryBudget: 1, NoWatchList: true, OnError: func(err error) { reported = append(reported, err) },
		}})
		if err != nil {
			t.Fatal(err)
		}
		replay := &replayed{t: t, state: map[object.Key]pod{}}
		mustAdd(t, inf, replay, tidings.HandlerOptions{})
		c.hook = func(sent int) error {
			if sent < n-1 {
				return nil
			}
			synctest.Wait()
			if len(replay.state) <= kept {
				t.Errorf("the handler was told of %d pods", len(replay.state))
			}
			c.restore(kept, backup...)
			return errors.New("broken off")
		}
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if inf.Snapshot().Len() != kept {
			t.Errorf("the store has %d pods, the cluster %d", inf.Snapshot().Len(), kept)
		}
		if !slices.ContainsFunc(reported, func(err error) bool { return strings.Contains(err.Error(), "restored from a backup") }) {
			t.Errorf("reported %v: nothing says that the cluster was restored", reported)
		}
		if err := inf.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		replay.mustEqual(inf.Snapshot(), "the handler")
	})
}

// TestInterruptedFirstLists interrupts first lists while the cluster changes, goes back to an
// earlier state, or namespaces change, with slow handlers, late ones and ones that panic. In the
// end every handler's replay equals the store, and the store equals the cluster.
func TestInterruptedFirstLists(t *testing.T) {
	testseed.Each(t, 8, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			r := &interrupted{t: t, Rand: rand.New(rand.NewPCG(seed, 1)), c: &streamedCluster{cluster: newCluster()}}
			r.run()
		})
	})
}

type interrupted struct {
	*rand.Rand
	t       *testing.T
	c       *streamedCluster
	inf     *tidings.SharedInformer[pod]
	replays []*replayed
	backup  []pod
	version int
}

func (r *interrupted) run() {
	t := r.t
	for range 20 + r.IntN(700) {
		r.write()
	}
	r.inf = r.c.start(t, []int64{1, 100_000, 1_000_000}[r.IntN(3)])
	index := r.inf.AddIndex("node", func(p pod) []string { return []string{p.Spec.NodeName} })
	r.addHandler()
	failures := r.IntN(4)
	var synced atomic.Bool
	r.c.hook = func(int) error {
		if synced.Load() {
			return nil
		}
		switch r.IntN(150) {
		case 0:
			r.addHandler()
		case 1:
			for range r.IntN(20) {
				r.write()
			}
		case 2:
			time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
		case 3:
			if failures--; failures >= 0 {
				r.change()
				return errors.New("broken off")
			}
		}
		return nil
	}
	if err := r.inf.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.inf.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	synced.Store(true)
	time.Sleep(time.Hour)
	synctest.Wait()
	snap := r.inf.Snapshot()
	if snap.Len() != len(r.c.pods) {
		t.Errorf("the store has %d pods, the cluster %d", snap.Len(), len(r.c.pods))
	}
	indexed := 0
	for node := range 10 {
		for p := range index.All(fmt.Sprint("node-", node)) {
			indexed++
			if want := r.c.pods[object.KeyOf(p)]; want == nil || want.Spec.NodeName != fmt.Sprint("node-", node) {
				t.Errorf("the index has %s on node %d", p.Name, node)
			}
		}
	}
	if indexed != snap.Len() {
		t.Errorf("the index has %d of %d pods", indexed, snap.Len())
	}
	for key, p := range snap.All() {
		if want := r.c.pods[key]; want == nil || want.UID != p.UID || want.ResourceVersion != p.ResourceVersion {
			t.Errorf("the store has %s@%s, the cluster %v", key, p.ResourceVersion, want)
		}
	}
	for i, replay := range r.replays {
		replay.mustEqual(snap, fmt.Sprint("handler ", i))
	}
}

// change changes the cluster between two lists.
func (r *interrupted) change() {
	switch r.IntN(3) {
	case 0:
		r.c.mu.Lock()
		r.backup, r.version = nil, r.c.version
		for _, p := range r.c.pods {
			r.backup = append(r.backup, p)
		}
		r.c.mu.Unlock()
	case 1:
		if r.backup != nil {
			r.c.restore(r.version, r.backup...)
		}
	}
	for range r.IntN(200) {
		r.write()
	}
}

func (r *interrupted) write() {
	key := object.Key{Namespace: fmt.Sprint("n", r.IntN(3)), Name: fmt.Sprint("p", r.IntN(400))}
	if r.IntN(5) == 0 {
		r.c.remove(key)
		return
	}
	p := podOn(key.Namespace, key.Name)
	p.Spec.NodeName = fmt.Sprint("node-", r.IntN(10))
	r.c.write(p)
}

func (r *interrupted) addHandler() {
	replay := &replayed{t: r.t, state: map[object.Key]pod{}, delay: time.Duration(r.IntN(3)) * time.Millisecond, rewinds: true}
	r.replays = append(r.replays, replay)
	mustAdd(r.t, r.inf, panicking{replay, r.IntN(2) == 0}, tidings.HandlerOptions{
		Policy: []tidings.Policy{tidings.Coalesce, tidings.Block, tidings.Unbounded}[r.IntN(3)],
	})
}

// panicking panics after it has recorded its notification.
type panicking struct {
	*replayed
	panics bool
}

func (h panicking) OnAdd(p pod, initial bool) {
	h.replayed.OnAdd(p, initial)
	if h.panics {
		panic("as asked")
	}
}
