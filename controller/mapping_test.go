package controller

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/object"
)

// mappingTest is a controller whose mapper returns the owner in the label "owner", and panics for states that
// panics names.
type mappingTest struct {
	server *server
	cache  *podCache
	seen   *calls
	c      *Controller
	log    *logText
	panics func(p *corev1.Pod) bool
	stop   func() error
}

func newMappingTest(t *testing.T, panics func(p *corev1.Pod) bool) *mappingTest {
	m := &mappingTest{server: newServer(), seen: newCalls(), log: &logText{}, panics: panics}
	m.cache = newPodCache(m.server)
	m.c = New("test", func(_ context.Context, key object.Key) (Result, error) {
		m.seen.add(key)
		return Result{}, nil
	}, Options{Logger: slog.New(slog.NewTextHandler(m.log, nil))})
	Watch(m.c, m.cache, func(p *corev1.Pod, enqueue func(object.Key)) {
		enqueue(key("before"))
		if m.panics(p) {
			panic(errBroken)
		}
		enqueue(key(p.Labels["owner"]))
	})
	m.stop = running(t, m.c)
	synctest.Wait()
	return m
}

// put writes a pod with an owner, and lets the cache see it.
func (m *mappingTest) put(name, owner string) {
	p := pod(name, "")
	p.Labels = map[string]string{"owner": owner}
	m.server.put(p)
	m.cache.advance(-1)
	synctest.Wait()
}

// expect fails unless these keys have been reconciled since the last call, in any order.
func (m *mappingTest) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	synctest.Wait()
	got := m.seen.take()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: reconciled %v, want %v", when, got, want)
	}
}

func TestPanickingMapperLosesNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		broken.Store(true)
		m := newMappingTest(t, func(*corev1.Pod) bool { return broken.Load() })
		m.put("a", "web")
		m.expect(t, "before the panic", "before")
		st, err := m.c.Stats(), m.c.Readyz()
		if st.MapperPanics != 1 || st.UnmappedObjects != 1 || err == nil || m.c.Healthz() != nil {
			t.Errorf("%+v, %v", st, err)
		}
		want := "controller test: pods: the mapper panics for 1 objects, so it is not known which keys they concern; for shop/a: panic: broken"
		if err != nil && (err.Error() != want || !errors.Is(err, errBroken)) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		for _, want := range []string{"mapper panicked", "object=shop/a", "mapping_test.go"} {
			if !strings.Contains(m.log.String(), want) {
				t.Errorf("%q is not in the log:\n%s", want, m.log)
			}
		}
		time.Sleep(time.Second)
		m.expect(t, "after a second", "before")
		broken.Store(false)
		time.Sleep(2 * time.Second)
		m.expect(t, "after it is repaired", "before", "web")
		if st, err := m.c.Stats(), m.c.Readyz(); st.UnmappedObjects != 0 || st.MapperPanics != 2 || err != nil {
			t.Errorf("%+v, %v", st, err)
		}
		if n := strings.Count(m.log.String(), "mapper panicked"); n != 2 {
			t.Errorf("two panics a second apart are logged %d times", n)
		}
		time.Sleep(time.Hour)
		m.expect(t, "much later")
	})
}

// TestRetryBesideOtherCaches: a mapper that panicked is called again, whatever other caches the controller has, and
// once it succeeds there is no problem any more.
func TestRetryBesideOtherCaches(t *testing.T) {
	for name, broken := range map[string]int{"the first": 0, "the one between": 1, "the last": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen, panics := newCalls(), 1
				c := New("test", func(_ context.Context, key object.Key) (Result, error) {
					seen.add(key)
					return Result{}, nil
				}, Options{Logger: slog.New(slog.DiscardHandler)})
				server := newServer()
				for i := range 3 {
					cache := newPodCache(server)
					mapper := func(*corev1.Pod, func(object.Key)) {}
					if i == broken {
						mapper = func(p *corev1.Pod, enqueue func(object.Key)) {
							if panics--; panics >= 0 {
								panic(errBroken)
							}
							enqueue(key("owner"))
						}
						time.AfterFunc(time.Second, func() { cache.advance(-1) })
					}
					Watch(c, cache, mapper)
				}
				server.put(pod("a", ""))
				stop := running(t, c)
				time.Sleep(time.Minute)
				if got := seen.take(); !slices.Equal(got, []string{"owner"}) {
					t.Errorf("reconciled %v, want the owner", got)
				}
				for range 3 {
					if err := errors.Join(c.Readyz(), c.Healthz()); err != nil {
						t.Error(err)
					}
					time.Sleep(20 * time.Minute)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestFormerOwnerLearnsOfItsLoss has a mapper that panics for one state of a pod: the owner that the pod left in that
// state is reconciled later.
func TestFormerOwnerLearnsOfItsLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		broken.Store(true)
		m := newMappingTest(t, func(p *corev1.Pod) bool { return broken.Load() && p.Labels["owner"] == "two" })
		m.put("a", "one")
		m.expect(t, "first state", "before", "one")
		m.put("a", "two")
		m.expect(t, "second state", "before", "one")
		m.put("a", "three")
		m.expect(t, "third state", "before", "three")
		if panics := m.c.Stats().MapperPanics; panics != 2 {
			t.Errorf("the mapper was asked %d times about a state", panics)
		}
		broken.Store(false)
		time.Sleep(time.Second)
		m.expect(t, "after it is repaired", "before", "two")
	})
}

func TestChangesAndResyncsMapAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		broken.Store(true)
		m := newMappingTest(t, func(*corev1.Pod) bool { return broken.Load() })
		m.put("a", "web")
		time.Sleep(200 * time.Second) // the next attempt is minutes away
		m.seen.take()
		broken.Store(false)
		m.cache.resync()
		m.expect(t, "after a resync", "before", "web")

		broken.Store(true)
		m.put("b", "db")
		time.Sleep(200 * time.Second)
		m.seen.take()
		broken.Store(false)
		m.put("b", "api")
		m.expect(t, "after a change", "before", "db", "api")
		if st := m.c.Stats(); st.UnmappedObjects != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestMappingIsGivenUp has a mapper that always panics for one pod. It is called for the pod's present state forever,
// and for that of a deleted pod a limited number of times.
func TestMappingIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMappingTest(t, func(p *corev1.Pod) bool { return p.Name == "bad" })
		m.put("bad", "web")
		time.Sleep(24 * time.Hour)
		if st := m.c.Stats(); st.UnmappedObjects != 1 || st.MapperPanics < 280 || st.MapperPanics > 300 || st.MappingsDropped != 0 {
			t.Errorf("%+v", st)
		}
		m.server.delete(key("bad"))
		m.cache.advance(-1)
		time.Sleep(time.Hour)
		if st := m.c.Stats(); st.UnmappedObjects != 0 || st.MappingsDropped != 1 {
			t.Errorf("%+v", st)
		}
		if err := m.c.Readyz(); err != nil {
			t.Error(err)
		}
		if !strings.Contains(m.log.String(), "gave up") {
			t.Error("giving up is not in the log")
		}
	})
}

func TestUnmappedStatesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMappingTest(t, func(*corev1.Pod) bool { return true })
		for i := range 10 {
			m.put("a", strconv.Itoa(i))
		}
		if st := m.c.Stats(); st.UnmappedObjects != 1 || st.MappingsDropped != 10-maxStates {
			t.Errorf("%+v", st)
		}
		for i := range maxUnmapped + 10 {
			p := pod(strconv.Itoa(i), "")
			p.ResourceVersion = "1"
			added := object.Delta[*corev1.Pod]{Key: object.KeyOf(p), Object: p, Type: object.Added}
			m.c.sources[0].(*watch[*corev1.Pod]).handle(m.c, added, nil)
		}
		if st := m.c.Stats(); st.UnmappedObjects != maxUnmapped || st.MappingsDropped != 10-maxStates+11 {
			t.Errorf("%+v", st)
		}
		if lines := strings.Count(m.log.String(), "\n"); lines > 10 {
			t.Errorf("%d lines were logged in a moment", lines)
		}
	})
}

func TestPanickingPredicateLetsTheChangePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		cache := newPodCache(s)
		seen := newCalls()
		c := New("test", func(_ context.Context, key object.Key) (Result, error) {
			seen.add(key)
			return Result{}, nil
		}, Options{Logger: slog.New(slog.DiscardHandler)})
		Watch(c, cache, Self[*corev1.Pod], func(d object.Delta[*corev1.Pod]) bool { panic("no") })
		running(t, c)
		synctest.Wait()
		s.put(pod("a", ""))
		cache.advance(-1)
		synctest.Wait()
		if got := seen.take(); !slices.Equal(got, []string{"a"}) || c.Stats().MapperPanics != 1 {
			t.Errorf("reconciled %v, %+v", got, c.Stats())
		}
	})
}

// TestStuckMapperDoesNotKeepRunFromEnding has a mapper that never returns.
func TestStuckMapperDoesNotKeepRunFromEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newServer()
		cache := newPodCache(s)
		c := New("test", succeed, Options{StopTimeout: time.Minute})
		Watch(c, cache, func(*corev1.Pod, func(object.Key)) { <-release })
		other := newPodCache(newServer())
		Watch(c, other, Self[*corev1.Pod])
		stop := running(t, c)
		synctest.Wait()
		s.put(pod("a", ""))
		go cache.advance(-1)
		synctest.Wait()
		if err := c.Readyz(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		want := "controller test: pods: the mapper has been running for 1m0s for shop/a"
		if err := c.Readyz(); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if err := c.Healthz(); err != nil {
			t.Error(err)
		}
		time.Sleep(9 * time.Minute)
		if err := c.Healthz(); err == nil {
			t.Error("healthy with a mapper that does not return")
		}
		start := time.Now()
		err := stop()
		want = "controller test: work is still running 1m0s after its context has ended: mapper of pods for shop/a"
		if !errors.Is(err, ErrStillRunning) || err.Error() != want || time.Since(start) != time.Minute {
			t.Errorf("after %v\ngot  %v\nwant %s", time.Since(start), err, want)
		}
		if other.handlerCount() != 0 {
			t.Error("the stuck mapper keeps the handler of another cache")
		}
		close(release)
	})
}

// TestCallTracker distinguishes one long call from several short ones.
func TestCallTracker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c callTracker
		expect := func(when string, name string, age time.Duration) {
			t.Helper()
			k, got := c.age()
			if _, ok := c.running(); k.Name != name || got != age || ok != (name != "") {
				t.Errorf("%s: %v for %v, running: %v", when, k, got, ok)
			}
		}
		expect("before any call", "", 0)
		c.begin(key("a"))
		time.Sleep(time.Minute)
		expect("first seen", "a", 0)
		time.Sleep(time.Minute)
		expect("later", "a", time.Minute)
		c.end()
		expect("after the call", "", 0)
		c.begin(key("a"))
		expect("another call", "a", 0)
		time.Sleep(time.Minute)
		expect("another call, later", "a", time.Minute)
	})
}

// TestMapperIsNeverCalledTwiceAtATime changes an object during a retry of the mapper.
func TestMapperIsNeverCalledTwiceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, most atomic.Int64
		m := newMappingTest(t, func(*corev1.Pod) bool {
			most.Store(max(most.Load(), calls.Add(1)))
			time.Sleep(300 * time.Millisecond)
			calls.Add(-1)
			return true
		})
		for i := range 20 {
			m.put("a", strconv.Itoa(i))
			time.Sleep(500 * time.Millisecond)
		}
		if most.Load() != 1 {
			t.Errorf("%d calls at a time", most.Load())
		}
		time.Sleep(time.Hour)
	})
}

// TestMapperMayCallBack calls everything that a user may think of from a mapper.
func TestMapperMayCallBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		cache := newPodCache(s)
		c := New("test", succeed, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		Watch(c, cache, func(p *corev1.Pod, enqueue func(object.Key)) {
			c.Enqueue(object.KeyOf(p))
			c.Stats()
			if c.Readyz() != nil || c.Healthz() != nil {
				t.Error("not healthy")
			}
			if err := Watch(c, cache, Self[*corev1.Pod]); !errors.Is(err, ErrStarted) {
				t.Errorf("Watch: %v", err)
			}
			cancel()
		})
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		s.put(pod("a", ""))
		cache.advance(-1)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// brokenLimiter panics in all its methods.
type brokenLimiter struct{}

func (brokenLimiter) When(object.Key) time.Duration { panic(errBroken) }
func (brokenLimiter) Forget(object.Key)             { panic(errBroken) }
func (brokenLimiter) NumRequeues(object.Key) int    { panic(errBroken) }

func TestPanickingLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := newCalls()
		c := New("test", func(_ context.Context, key object.Key) (Result, error) {
			if seen.add(key) < 4 {
				return Result{}, errBroken
			}
			return Result{}, nil
		}, Options{RateLimiter: brokenLimiter{}, Logger: slog.New(slog.DiscardHandler)})
		stop := running(t, c)
		c.Enqueue(key("a"))
		time.Sleep(time.Hour)
		times := seen.times()
		if len(times) != 4 || times[1] < 4*time.Millisecond || times[3]-times[2] < times[1] {
			t.Errorf("reconciles at %v", times)
		}
		if n := c.queue.NumRequeues(key("a")); n != 0 {
			t.Errorf("%d failures are remembered after a success", n)
		}
		if st := c.Stats(); st.LimiterPanics == 0 || st.Errors != 3 {
			t.Errorf("%+v", st)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestReconcileThatEndsItsGoroutine calls runtime.Goexit, as t.Fatal does, in the only worker.
func TestReconcileThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := newCalls()
		c := New("test", func(_ context.Context, key object.Key) (Result, error) {
			if seen.add(key) < 3 {
				runtime.Goexit()
			}
			return Result{}, nil
		}, Options{Logger: slog.New(slog.DiscardHandler)})
		stop := running(t, c)
		c.Enqueue(key("a"))
		time.Sleep(time.Hour)
		c.Enqueue(key("b"))
		synctest.Wait()
		if got := seen.take(); !slices.Equal(got, []string{"a", "a", "a", "b"}) {
			t.Errorf("reconciled %v", got)
		}
		if st := c.Stats(); st.Panics != 2 || st.ActiveWorkers != 0 {
			t.Errorf("%+v", st)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestSameState: two states are the same if they are one object, or have the same version and uid.
func TestSameState(t *testing.T) {
	of := func(version, uid string) *corev1.Pod {
		p := pod("a", "")
		p.ResourceVersion, p.UID = version, types.UID(uid)
		return p
	}
	same := of("", "")
	for _, tt := range []struct {
		a, b *corev1.Pod
		want bool
	}{
		{same, same, true}, {of("1", "u"), of("1", "u"), true}, {of("1", "u"), of("2", "u"), false}, {of("1", "u"), of("1", "v"), false},
		{of("", "u"), of("", "u"), false}, {of("1", ""), of("1", ""), true},
	} {
		if got := sameState(tt.a, tt.b); got != tt.want {
			t.Errorf("%s/%s and %s/%s are the same: %t", tt.a.ResourceVersion, tt.a.UID, tt.b.ResourceVersion, tt.b.UID, got)
		}
	}
}

// TestEarliestRetryComesFirst: the object that has waited longest is retried first.
func TestEarliestRetryComesFirst(t *testing.T) {
	u, now := newUnmapped[*corev1.Pod](), time.Now()
	for i := range 50 {
		u.put(key(strconv.Itoa(i)), unmappedObject[*corev1.Pod]{states: []*corev1.Pod{pod("a", "")}, due: now.Add(time.Duration(i*17%50) * time.Second)})
	}
	keys := u.dueKeys(now.Add(29 * time.Second))
	if len(keys) != 30 {
		t.Fatalf("%d are due, want 30", len(keys))
	}
	for i, k := range keys {
		if want := now.Add(time.Duration(i) * time.Second); !u.objects[k].due.Equal(want) {
			t.Errorf("number %d is due at %v, want %v", i, u.objects[k].due, want)
		}
	}
	if next := u.nextDue(); !next.Equal(now) {
		t.Errorf("the next is due at %v, want %v", next, now)
	}
}
