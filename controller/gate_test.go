package controller

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/object"
)

// gateTest is a controller whose reconciles of the key "a" do one write, and whose cache moves by hand.
type gateTest struct {
	server *server
	cache  *podCache
	seen   *calls
	c      *Controller
	log    strings.Builder
}

// newGateTest starts a controller whose first reconcile calls act.
func newGateTest(t *testing.T, o Options, act func(ctx context.Context, g *gateTest)) *gateTest {
	g := &gateTest{server: newServer(), seen: newCalls()}
	g.cache = newPodCache(g.server)
	o.Log = slog.New(slog.NewTextHandler(&g.log, nil))
	g.c = New("test", func(ctx context.Context, key object.Key) (Result, error) {
		if g.seen.add(key) == 1 {
			act(ctx, g)
		}
		return Result{}, nil
	}, o)
	Use(g.c, g.cache)
	g.server.put(pod("old", ""))
	g.cache.advance(-1)
	running(t, g.c)
	time.Sleep(time.Hour) // the gate has come to rest
	g.c.Enqueue(key("a"))
	synctest.Wait()
	g.c.Enqueue(key("a"))
	synctest.Wait()
	return g
}

// expect fails unless the key has been reconciled n times.
func (g *gateTest) expect(t *testing.T, n int, when string) {
	t.Helper()
	synctest.Wait()
	if got := len(g.seen.times()); got != n {
		t.Errorf("%s: %d reconciles, want %d", when, got, n)
	}
}

func TestGateWaitsForAnUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateTest(t, Options{}, func(ctx context.Context, g *gateTest) {
			g.server.bookmark()
			Wrote(ctx, g.cache, g.server.put(pod("b", "")))
		})
		g.expect(t, 1, "before the cache has seen the write")
		g.c.Enqueue(key("a"))
		g.c.Enqueue(key("other"))
		g.expect(t, 2, "another key")
		g.cache.advance(1)
		g.expect(t, 2, "an older version")
		g.cache.advance(1)
		g.expect(t, 3, "the cache has seen the write")
		time.Sleep(time.Hour)
		g.expect(t, 3, "much later")
		if st := g.c.Stats(); st.GateWaits != 1 || st.GateTimeouts != 0 || st.GateWaiting != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestGateNoticesABookmark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateTest(t, Options{}, func(ctx context.Context, g *gateTest) {
			w := g.server.put(pod("b", ""))
			g.server.events = g.server.events[:1] // the event is filtered out on its way
			Wrote(ctx, g.cache, w)
		})
		g.server.bookmark()
		g.cache.advance(-1)
		g.expect(t, 1, "no delta tells of the bookmark")
		time.Sleep(recheckEvery)
		g.expect(t, 2, "some time later")
	})
}

func TestGateWaitsForADelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateTest(t, Options{}, func(ctx context.Context, g *gateTest) {
			old, _ := g.cache.Get(key("old"))
			g.server.delete(key("old"))
			Deleted(ctx, g.cache, old)
		})
		g.expect(t, 1, "before the cache has seen the delete")
		g.cache.advance(-1)
		g.expect(t, 2, "after")
	})
}

func TestGateTakesADeletionTimestampForADelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateTest(t, Options{}, func(ctx context.Context, g *gateTest) {
			old, _ := g.cache.Get(key("old"))
			dying := old.DeepCopy()
			now := metav1.Now()
			dying.DeletionTimestamp = &now
			g.server.put(dying)
			Deleted(ctx, g.cache, old)
		})
		g.expect(t, 1, "before the cache has seen the delete")
		g.cache.advance(-1)
		g.expect(t, 2, "after")
	})
}

// TestGateIsNotFooledByACreateAndDelete deletes an object that the cache has not even seen created.
func TestGateIsNotFooledByACreateAndDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateTest(t, Options{}, func(ctx context.Context, g *gateTest) {
			created := g.server.put(pod("b", ""))
			Wrote(ctx, g.cache, created)
			g.server.delete(key("b"))
			Deleted(ctx, g.cache, created)
		})
		g.expect(t, 1, "before the cache has seen anything")
		g.cache.advance(1)
		g.expect(t, 1, "the cache holds what was deleted")
		g.cache.advance(1)
		g.expect(t, 2, "after")
	})
}

func TestGateDoesNotWaitForWritesOutOfScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateTest(t, Options{}, func(ctx context.Context, g *gateTest) {
			g.cache.covers = func(p *corev1.Pod) bool { return p.Labels == nil }
			out := pod("b", "")
			out.Labels = map[string]string{"hidden": ""}
			Wrote(ctx, g.cache, g.server.put(out))
			Wrote(ctx, g.cache, pod("no version", ""))
			Wrote(ctx, g.cache, nil)
			Deleted(ctx, g.cache, nil)
		})
		g.expect(t, 2, "nothing to wait for")
	})
}

func TestGateWaitsForAnObjectToLeaveTheScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateTest(t, Options{}, func(ctx context.Context, g *gateTest) {
			g.cache.covers = func(p *corev1.Pod) bool { return p.Labels == nil }
			out := pod("old", "")
			out.Labels = map[string]string{"hidden": ""}
			Wrote(ctx, g.cache, g.server.put(out))
		})
		g.expect(t, 1, "the cache holds it still")
		g.cache.advance(-1)
		g.expect(t, 2, "it has left")
	})
}

func TestGateGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateTest(t, Options{MaxGateWait: time.Minute}, func(ctx context.Context, g *gateTest) {
			Wrote(ctx, g.cache, g.server.put(pod("b", "")))
		})
		time.Sleep(59 * time.Second)
		g.expect(t, 1, "before the longest wait is over")
		time.Sleep(time.Second + recheckEvery)
		g.expect(t, 2, "after")
		if st := g.c.Stats(); st.GateWaits != 1 || st.GateTimeouts != 1 || st.GateWaiting != 0 {
			t.Errorf("%+v", st)
		}
		if want := `write="pods: version 2 of shop/b"`; !strings.Contains(g.log.String(), want) {
			t.Errorf("%s is not in the log:\n%s", want, g.log.String())
		}
	})
}

func TestGateCanBeSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateTest(t, Options{MaxGateWait: -1}, func(ctx context.Context, g *gateTest) {
			Wrote(ctx, g.cache, g.server.put(pod("b", "")))
		})
		g.expect(t, 2, "without a gate")
		if st := g.c.Stats(); st.GateWaits+st.GateTimeouts != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestWritesOutsideAReconcileAreIgnored(t *testing.T) {
	cache := newPodCache(newServer())
	p := pod("a", "")
	p.ResourceVersion = "1"
	Wrote(t.Context(), cache, p)
	Deleted(t.Context(), cache, p)
}

// TestGateForgets writes for many keys that are never looked at again.
func TestGateForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := newPodCache(newServer())
		c := New("test", nil, Options{MaxGateWait: time.Second})
		for i := range 20_000 {
			p := pod("b", "")
			p.ResourceVersion = "1000000"
			Wrote(withRecorder(t.Context(), c.gate, key(strconv.Itoa(i))), cache, p)
			time.Sleep(10 * time.Millisecond)
		}
		if n := len(c.gate.pending); n > 2*minSweep {
			t.Errorf("the gate remembers %d keys", n)
		}
	})
}

// owned is the dumb model of what the gate must know: the writes made for each key.
type owned struct {
	mu       sync.Mutex
	versions map[object.Key]int
	// deleted are the pods that the cache has held all the time since they were deleted. One that has left it once may
	// come back in an older state, if it had only left the cache's scope for a while.
	deleted map[object.Key][]*corev1.Pod
}

// saw takes note of what leaves the cache.
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
// reconcile that the cache shows all that was written for its key; and that each key is reconciled in the end.
func TestGateProperty(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
			}()
			checkGate(t, seed)
		})
	}
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
			// No time has passed: it is the changes that must have woken the keys.
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

// act makes one write for the key k to the pod p, and notes it in the model and in the gate.
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

func TestWritesAreDroppedOnceSeen(t *testing.T) {
	cache := newPodCache(newServer())
	var w writes
	for i := range 10 {
		w.add(version[*corev1.Pod]{cache, key("a"), strconv.Itoa(i)})
	}
	cache.version = 4
	if got := w.unseen(); got == nil || !strings.Contains(got.String(), "version 5") {
		t.Errorf("unseen: %v", got)
	}
	if len(w.lasting) != 5 {
		t.Errorf("%d writes are kept", len(w.lasting))
	}
	cache.version = 9
	if got := w.unseen(); got != nil || len(w.lasting) != 0 {
		t.Errorf("unseen: %v", got)
	}
	if removed := (removal[*corev1.Pod]{cache: cache, key: key("a")}); removed.String() != "pods: removal of shop/a" {
		t.Error(removed)
	}
}
