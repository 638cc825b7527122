package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
)

// owned is a simple model of what the gate must know: the writes made for each key.
type owned struct {
	mu       sync.Mutex
	versions map[object.Key]int
	// deleted are the pods that the cache has held without interruption since they were deleted. A
	// pod that has left it once may return in an older state, if it had only left the cache's scope
	// for a while.
	deleted map[object.Key][]*corev1.Pod
}

// saw records what leaves the cache.
func (o *owned) saw(d object.Delta[*corev1.Pod]) {
	if d.Type != object.Deleted {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for k, pods := range o.deleted {
		o.deleted[k] = slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return object.KeyOf(p) == d.Key })
	}
}

// missing returns a write for the key that the cache does not show.
func (o *owned) missing(cache *podCache, key object.Key) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now, _ := strconv.Atoi(cache.ResourceVersionIn("")); now < o.versions[key] {
		return fmt.Sprintf("cache is at %d, the last write at %d", now, o.versions[key])
	}
	for _, p := range o.deleted[key] {
		if held, ok := cache.Get(object.KeyOf(p)); ok && held.UID == p.UID {
			return fmt.Sprintf("cache holds %s, which was deleted", p.Name)
		}
	}
	return ""
}

// TestGateProperty lets reconciles write at random to a server whose cache lags at random, and checks before each
// reconcile that the cache shows everything that was written for its key; and that each key is reconciled in the end.
func TestGateProperty(t *testing.T) {
	testseed.Each(t, 20, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { checkGate(t, seed) })
	})
}

func checkGate(t *testing.T, seed uint64) {
	s := newServer()
	cache := newPodCache(s)
	cache.covers = func(p *corev1.Pod) bool { return p.Labels == nil }
	o := &owned{versions: map[object.Key]int{}, deleted: map[object.Key][]*corev1.Pod{}}
	remove, err := cache.HandleDeltas("model", o.saw)
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	number := rand.New(rand.NewPCG(seed, 0)).IntN
	ofKey := map[object.Key]func(int) int{} // streams of their own, so that a seed repeats a run as far as it can
	for name := 'a'; name < 'f'; name++ {
		ofKey[key(string(name))] = rand.New(rand.NewPCG(seed, uint64(name))).IntN
	}
	var last sync.Map // the time of each key's last reconcile
	c := New("test", func(ctx context.Context, k object.Key) (Result, error) {
		if missing := o.missing(cache, k); missing != "" {
			t.Errorf("%s: %s", k, missing)
		}
		last.Store(k, time.Now())
		number := ofKey[k] // which is with one worker at a time
		for range number(3) {
			time.Sleep(time.Duration(number(20)) * time.Millisecond)
			o.act(ctx, cache, k, key(fmt.Sprint(k.Name, number(3))), number(4))
		}
		return Result{}, nil
	}, Options{Workers: 3, MaxGateWait: 24 * time.Hour})
	Watch(c, cache, func(p *corev1.Pod, enqueue func(object.Key)) { enqueue(key(p.Name[:1])) })
	stop := running(t, c)
	for range 500 {
		switch number(6) {
		case 0:
			s.put(pod(fmt.Sprint(string(rune('a'+number(5))), number(3)), ""))
		case 1:
			s.bookmark()
		case 2:
			c.Enqueue(key(string(rune('a' + number(5)))))
		case 3:
			cache.advance(-1)
			synctest.Wait()
			// No time has passed: the changes themselves must have woken the keys.
			if n := c.Stats().GateWaiting; n > 0 && cache.caughtUp() {
				t.Errorf("%d keys wait although the cache has seen all there is", n)
			}
		default:
			cache.advance(number(4))
		}
		time.Sleep(time.Duration(number(30)) * time.Millisecond)
	}
	end := time.Now()
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		c.Enqueue(key(name))
	}
	for range 100 {
		cache.advance(-1)
		time.Sleep(time.Second)
	}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if at, ok := last.Load(key(name)); !ok || at.(time.Time).Before(end) {
			t.Errorf("%s was not reconciled in the end", name)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if st := c.Stats(); st.GateTimeouts != 0 || st.Reconciles == 0 {
		t.Errorf("%+v", st)
	}
}

// act makes one write for the key k to the pod p, and records it in the model and in the gate.
func (o *owned) act(ctx context.Context, cache *podCache, k, p object.Key, what int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if what == 0 {
		if held, ok := cache.Get(p); ok {
			cache.server.delete(p)
			o.deleted[k] = append(o.deleted[k], held)
			Deleted(ctx, cache, held)
		}
		return
	}
	write := pod(p.Name, "")
	if what == 1 {
		write.Labels = map[string]string{"hidden": ""}
	}
	written := cache.server.put(write)
	if what != 1 {
		o.versions[k], _ = strconv.Atoi(written.ResourceVersion)
	}
	Wrote(ctx, cache, written)
}
