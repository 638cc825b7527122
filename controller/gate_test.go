package controller

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/workqueue"
)

// gateTest is a controller whose reconciles of the key "a" do one write, and whose cache is advanced by the test.
type gateTest struct {
	server *server
	cache  *podCache
	seen   *calls
	c      *Controller
	log    logText
}

// newGateTest starts a controller whose first reconcile calls act.
func newGateTest(t *testing.T, o Options, act func(ctx context.Context, g *gateTest)) *gateTest {
	g := &gateTest{server: newServer(), seen: newCalls()}
	g.cache = newPodCache(g.server)
	o.Logger = slog.New(slog.NewTextHandler(&g.log, nil))
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

// TestGateIsNotFooledByACreateAndDelete deletes an object whose creation the cache has not even seen.
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

// TestGateWaitsForADeleteByName reports deletes without a uid.
func TestGateWaitsForADeleteByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateTest(t, Options{}, func(ctx context.Context, g *gateTest) {
			g.server.delete(key("old"))
			Deleted(ctx, g.cache, pod("old", ""))
		})
		g.expect(t, 1, "before the cache has seen the delete")
		g.cache.advance(-1)
		g.expect(t, 2, "after")
	})
	synctest.Test(t, func(t *testing.T) {
		g := newGateTest(t, Options{}, func(ctx context.Context, g *gateTest) {
			g.server.delete(key("old"))
			Deleted(ctx, g.cache, pod("old", ""))
			g.server.put(pod("old", "")) // by somebody else
		})
		g.cache.advance(-1)
		g.expect(t, 2, "the cache holds another object of that name")
	})
	synctest.Test(t, func(t *testing.T) {
		g := newGateTest(t, Options{}, func(ctx context.Context, g *gateTest) {
			Wrote(ctx, g.cache, g.server.put(pod("b", "")))
			g.server.delete(key("b"))
			Deleted(ctx, g.cache, pod("b", ""))
		})
		g.cache.advance(1)
		g.expect(t, 1, "the cache holds what was deleted")
		g.cache.advance(1)
		g.expect(t, 2, "after")
	})
	synctest.Test(t, func(t *testing.T) {
		g := newGateTest(t, Options{}, func(ctx context.Context, g *gateTest) {
			Wrote(ctx, g.cache, g.server.put(pod("b", "")))
			g.server.delete(key("b"))
			Deleted(ctx, g.cache, pod("b", ""))
			Wrote(ctx, g.cache, g.server.put(pod("b", "")))
		})
		g.cache.advance(2)
		g.expect(t, 1, "before the cache has seen what was created again")
		g.cache.advance(1)
		g.expect(t, 2, "after")
	})
}

// TestGateOpensForWritesThatTheCacheCannotJudge writes an object of which the cache cannot tell
// whether it covers it, for example because of a field selector.
func TestGateOpensForWritesThatTheCacheCannotJudge(t *testing.T) {
	for name, write := range map[string]*corev1.Pod{"new": pod("b", ""), "known": pod("old", "")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGateTest(t, Options{}, func(ctx context.Context, g *gateTest) {
					g.cache.judges = func(*corev1.Pod) bool { return false }
					Wrote(ctx, g.cache, g.server.put(write))
				})
				g.cache.advance(-1)
				g.expect(t, 2, "after the cache has seen the write")
			})
		})
	}
}

// TestGateForgetsALostHistory restores the server from a backup while a key waits for writes made after it.
func TestGateForgetsALostHistory(t *testing.T) {
	for name, act := range map[string]func(ctx context.Context, g *gateTest){
		"update": func(ctx context.Context, g *gateTest) { Wrote(ctx, g.cache, g.server.put(pod("b", ""))) },
		"delete": func(ctx context.Context, g *gateTest) {
			old, _ := g.cache.Get(key("old"))
			g.server.delete(key("old"))
			Deleted(ctx, g.cache, old)
		},
		"update out of scope": func(ctx context.Context, g *gateTest) {
			g.cache.judges = func(*corev1.Pod) bool { return false }
			Wrote(ctx, g.cache, g.server.put(pod("old", "")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGateTest(t, Options{MaxGateWait: time.Hour}, func(ctx context.Context, g *gateTest) {
					g.server.bookmark()
					g.cache.advance(-1)
					act(ctx, g)
				})
				time.Sleep(time.Minute)
				g.expect(t, 1, "before the restore")
				g.cache.restore("1")
				time.Sleep(recheckEvery)
				g.expect(t, 2, "after the restore")
				if st := g.c.Stats(); st.GateTimeouts != 0 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// TestGateKeepsThePriority has a key of low priority wait at the gate: it must not overtake others
// with low priority afterwards.
func TestGateKeepsThePriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		cache := newPodCache(s)
		seen := newCalls()
		c := New("test", func(ctx context.Context, k object.Key) (Result, error) {
			time.Sleep(time.Second)
			if seen.add(k) == 1 {
				Wrote(ctx, cache, s.put(pod("b", "")))
				return Result{RequeueAfter: time.Second}, nil
			}
			return Result{}, nil
		}, Options{})
		Use(c, cache)
		stop := running(t, c)
		c.enqueue(key("waits"), workqueue.Low)
		time.Sleep(5 * time.Second)
		for _, name := range []string{"one", "two", "three"} {
			c.enqueue(key(name), workqueue.Low)
		}
		synctest.Wait()
		cache.advance(-1)
		time.Sleep(time.Minute)
		if got, want := seen.take(), []string{"waits", "one", "two", "three", "waits"}; !slices.Equal(got, want) {
			t.Errorf("reconciled %v, want %v", got, want)
		}
		if st := c.Stats(); st.GateWaits != 1 {
			t.Errorf("%+v", st)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestGateRaisesThePriority has a key wait at the gate that changes in the meantime.
func TestGateRaisesThePriority(t *testing.T) {
	cache := newPodCache(newServer())
	var got []workqueue.Priority
	taken := workqueue.Low
	g := newGate(time.Hour, func(object.Key) workqueue.Priority { return taken },
		func(_ object.Key, p workqueue.Priority) { got = append(got, p) }, func(missedWrite[object.Key]) {})
	g.add(key("a"), expected(cache, present, "b", 1))
	for _, taken = range []workqueue.Priority{workqueue.Low, workqueue.Normal, workqueue.Low} {
		if !g.blocks(key("a")) {
			t.Error("the gate is open")
		}
	}
	cache.version = 1
	if left := g.recheck(); left != 0 || !slices.Equal(got, []workqueue.Priority{workqueue.Normal}) {
		t.Errorf("enqueued with priorities %v, %d left", got, left)
	}
}

// expected returns what is expected of the one cache, which covers the pod.
func expected(cache *podCache, w want, name string, version int) *expectation {
	o := pod(name, "").ObjectMeta
	o.ResourceVersion = strconv.Itoa(version)
	return &expectation{in: newWatch(cache, nil), covered: true, want: w, object: o}
}

// TestLookUpsEndWithTheWait: nobody asks a server that may be down for writes that no key waits for any more.
func TestLookUpsEndWithTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New("test", succeed, Options{MaxGateWait: 12 * time.Second})
		cache := newPodCache(newServer())
		if err := Use(c, cache); err != nil {
			t.Fatal(err)
		}
		running(t, c)
		var times atomic.Int64
		down := roundTripper(func(*http.Request) (*http.Response, error) {
			times.Add(1)
			return nil, errBroken
		})
		e := expected(cache, present, "b", 1)
		e.from = &origin{transport: down, name: "b", doubted: time.Now().Add(lookupAfter)}
		c.gate.add(key("a"), e)
		c.Enqueue(key("a"))
		time.Sleep(time.Minute)
		if n := times.Load(); n < 6 || n > 8 { // one a second from the fifth on, until the twelfth
			t.Errorf("looked up %d times", n)
		}
		if st := c.Stats(); st.GateTimeouts != 1 {
			t.Errorf("%+v", st)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestLostHistoryStaysLost lets a restored server continue: the versions it assigns again belong to other writes.
func TestLostHistoryStaysLost(t *testing.T) {
	type step struct {
		version int
		want    bool
	}
	for _, steps := range [][]step{{{100, false}, {110, false}, {50, true}, {60, true}, {115, true}}, {{110, false}, {105, true}, {115, true}}} {
		cache := newPodCache(newServer())
		cache.version = 100
		e := expected(cache, present, "a", 120)
		e.observe(nil)
		e.noted = historyClock.Add(1)
		for _, step := range steps {
			cache.version = step.version
			if got := e.seen(e.in); (got == past) != step.want {
				t.Errorf("at version %d: %v", step.version, got)
			}
		}
	}
}

// TestEveryMissIsTold, even for a key that changes just when its wait times out.
func TestEveryMissIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logText
		c := New("test", succeed, Options{MaxGateWait: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		p := pod("b", "")
		p.ResourceVersion = "1000000"
		Wrote(withRecorder(t.Context(), c.gate, key("a")), newPodCache(newServer()), p)
		if !c.gate.blocks(key("a")) || log.String() != "" {
			t.Errorf("the key does not wait: %s", log.String())
		}
		time.Sleep(time.Minute)
		if c.gate.blocks(key("a")) || !strings.Contains(log.String(), "reconciling although a cache has not seen one of the key's writes") {
			t.Errorf("the key waits for too long, or nothing is logged: %s", log.String())
		}
	})
}

// TestGateForgets writes for many keys that are never checked again.
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

func TestWritesAreDroppedOnceSeen(t *testing.T) {
	cache, other := newPodCache(newServer()), newPodCache(newServer())
	g := newGate[object.Key](time.Hour, nil, nil, nil)
	views := map[*podCache]cacheView{cache: newWatch(cache, nil), other: newWatch(other, nil)}
	var w writes
	add := func(cache *podCache, namespace string, v int) {
		e := expected(cache, present, "a", v)
		e.in, e.object.Namespace = views[cache], namespace
		w.add(e, nil)
	}
	for i := range 10 {
		add(cache, "shop", i)
		add(cache, "billing", i+1)
		add(other, "shop", i+2)
	}
	add(cache, "shop", 5)
	if len(w.all) != 4 { // versions 9, 10, 11, and 5, which does not imply 9
		t.Errorf("%d writes are kept", len(w.all))
	}
	cache.version = 9
	if got := g.unseen(&w, nil); got == nil || got.String() != "pods: version 10 of billing/a" {
		t.Errorf("unseen: %v", got)
	}
	if len(w.all) != 3 { // what follows the first that is not seen is not looked at
		t.Errorf("%d writes are kept", len(w.all))
	}
	cache.version, other.version = 10, 11
	if got := g.unseen(&w, nil); got != nil || len(w.all) != 0 {
		t.Errorf("unseen: %v", got)
	}
	if removed := expected(cache, gone, "a", 1); removed.String() != "pods: removal of shop/a" {
		t.Error(removed)
	}
}
