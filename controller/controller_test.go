package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/workqueue"
)

// calls records the keys a reconciler was called with.
type calls struct {
	mu   sync.Mutex
	keys []string
	at   []time.Duration
	zero time.Time
}

func newCalls() *calls { return &calls{zero: time.Now()} }

func (c *calls) add(key object.Key) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys = append(c.keys, key.Name)
	c.at = append(c.at, time.Since(c.zero))
	return len(c.keys)
}

func (c *calls) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := c.keys
	c.keys = nil
	return keys
}

// times returns when the calls were made, counted from the start.
func (c *calls) times() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.at)
}

// watchesOfOwnKeys are the ways to reconcile each object under its own key.
var watchesOfOwnKeys = map[string]func(*Controller, Cache[*corev1.Pod]) error{
	"objects": func(c *Controller, cache Cache[*corev1.Pod]) error { return Watch(c, cache, Self[*corev1.Pod]) },
	"keys":    WatchKeys[*corev1.Pod],
}

func TestChangesAreReconciled(t *testing.T) {
	for name, watch := range watchesOfOwnKeys {
		t.Run(name, func(t *testing.T) { testChangesAreReconciled(t, watch) })
	}
}

func testChangesAreReconciled(t *testing.T, watch func(*Controller, Cache[*corev1.Pod]) error) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		cache := newPodCache(s)
		s.put(pod("a", ""))
		cache.advance(-1)
		seen := newCalls()
		c := New("test", func(_ context.Context, key object.Key) (Result, error) {
			seen.add(key)
			return Result{}, nil
		}, Options{})
		watch(c, cache)
		stop := running(t, c)
		synctest.Wait()
		s.put(pod("b", ""))
		s.put(pod("a", ""))
		s.delete(key("b"))
		cache.advance(-1)
		synctest.Wait()
		if got, want := seen.take(), []string{"a", "b", "a", "b"}; !slices.Equal(got, want) {
			t.Errorf("reconciled %v, want %v", got, want)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		s.put(pod("a", ""))
		cache.advance(-1)
		if err := c.Run(t.Context()); !errors.Is(err, ErrStarted) {
			t.Errorf("second Run: %v", err)
		}
		for _, err := range []error{watch(c, cache), Use(c, cache)} {
			if !errors.Is(err, ErrStarted) || err.Error() != "controller test: "+ErrStarted.Error() {
				t.Error(err)
			}
		}
		if cache.handlerCount() != 0 || len(seen.take()) != 0 {
			t.Error("the controller goes on after Run has returned")
		}
	})
}

func TestChangesGoBeforeTheInitialList(t *testing.T) {
	for name, watch := range watchesOfOwnKeys {
		t.Run(name, func(t *testing.T) { testChangesGoBeforeTheInitialList(t, watch) })
	}
}

func testChangesGoBeforeTheInitialList(t *testing.T, watch func(*Controller, Cache[*corev1.Pod]) error) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		cache := newPodCache(s)
		for _, name := range []string{"a", "b", "c"} {
			s.put(pod(name, ""))
		}
		cache.advance(-1)
		seen := newCalls()
		c := New("test", func(_ context.Context, key object.Key) (Result, error) {
			time.Sleep(time.Second)
			seen.add(key)
			return Result{}, nil
		}, Options{})
		watch(c, cache)
		running(t, c)
		synctest.Wait()
		s.put(pod("new", ""))
		cache.advance(-1)
		time.Sleep(time.Minute)
		if got := seen.take(); len(got) != 4 || got[1] != "new" {
			t.Errorf("reconciled %v", got)
		}
	})
}

// TestOneReconcileForOneUpdate uses a waiting worker: it must not get the key once for each state of the object.
func TestOneReconcileForOneUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		cache := newPodCache(s)
		seen := newCalls()
		c := New("test", func(_ context.Context, key object.Key) (Result, error) {
			seen.add(key)
			return Result{}, nil
		}, Options{Workers: 2})
		Watch(c, cache, Owner[*corev1.Pod](cache, kindReplicaSet))
		running(t, c)
		synctest.Wait()
		for range 20 {
			s.put(pod("a", "web"))
			cache.advance(-1)
			synctest.Wait()
		}
		if got := seen.take(); len(got) != 20 {
			t.Errorf("%d reconciles for 20 changes", len(got))
		}
		s.put(pod("a", "other"))
		cache.advance(-1)
		synctest.Wait()
		got := seen.take()
		slices.Sort(got)
		if want := []string{"other", "web"}; !slices.Equal(got, want) {
			t.Errorf("a new owner: reconciled %v, want %v", got, want)
		}
	})
}

func TestErrorsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := newCalls()
		c := New("test", func(_ context.Context, key object.Key) (Result, error) {
			if seen.add(key) < 4 {
				return Result{}, errBroken
			}
			return Result{RequeueAfter: time.Minute}, nil
		}, Options{RateLimiter: &workqueue.Exponential[object.Key]{Base: time.Second}})
		stop := running(t, c)
		c.Enqueue(key("a"))
		time.Sleep(2 * time.Minute)
		want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 67 * time.Second}
		if !slices.Equal(seen.times(), want) {
			t.Errorf("reconciled at %v, want %v", seen.times(), want)
		}
		if n := c.queue.NumRequeues(key("a")); n != 0 {
			t.Errorf("%d failures are remembered after a success", n)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if st := c.Stats(); st.Reconciles != 5 || st.Errors != 3 || st.Queue.Retries != 5 || st.Workers != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestServerSaysWhenToRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := newCalls()
		c := New("test", func(_ context.Context, key object.Key) (Result, error) {
			if seen.add(key) == 1 {
				return Result{}, apierrors.NewTooManyRequests("slow down", 30)
			}
			return Result{}, nil
		}, Options{})
		running(t, c)
		c.Enqueue(key("a"))
		time.Sleep(time.Minute)
		if want := []time.Duration{0, 30 * time.Second}; !slices.Equal(seen.times(), want) {
			t.Errorf("reconciled at %v, want %v", seen.times(), want)
		}
	})
}

func TestTerminalErrorsAndPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		seen := newCalls()
		c := New("test", func(_ context.Context, key object.Key) (Result, error) {
			switch n := seen.add(key); {
			case key.Name == "terminal":
				return Result{}, Terminal(errBroken)
			case n < 3:
				panic(errBroken)
			}
			return Result{}, nil
		}, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		stop := running(t, c)
		c.Enqueue(key("terminal"))
		c.Enqueue(key("panics"))
		time.Sleep(time.Hour)
		if got, want := seen.take(), []string{"terminal", "panics", "panics"}; !slices.Equal(got, want) {
			t.Errorf("reconciled %v, want %v", got, want)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if st := c.Stats(); st.TerminalErrors != 1 || st.Panics != 1 || st.Reconciles != 3 {
			t.Errorf("%+v", st)
		}
		for _, want := range []string{"failed with a terminal error", "panic: broken", "controller_test.go", "key=shop/panics"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%q is not in the log:\n%s", want, log.String())
			}
		}
	})
}

// TestErrorsWithMethodsThatPanic: a nil pointer to an error type is an error whose methods panic,
// and is easily returned by mistake.
func TestErrorsWithMethodsThatPanic(t *testing.T) {
	var none *apierrors.StatusError
	for name, fail := range map[string]func(ctx context.Context) error{
		"returned": func(context.Context) error { return none },
		"wrapped":  func(context.Context) error { return fmt.Errorf("cannot create a pod: %w", none) },
		"thrown":   func(context.Context) error { panic(none) },
		"late": func(ctx context.Context) error {
			<-ctx.Done()
			return none
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			seen := newCalls()
			c := New("test", func(ctx context.Context, key object.Key) (Result, error) {
				if seen.add(key) == 1 {
					return Result{}, fail(ctx)
				}
				return Result{}, nil
			}, Options{Timeout: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			stop := running(t, c)
			c.Enqueue(key("a"))
			time.Sleep(time.Minute)
			if err := stop(); err != nil {
				t.Error(name, err)
			}
			if st := c.Stats(); st.Panics != 1 || st.Reconciles != 2 {
				t.Errorf("%s: %+v", name, st)
			}
			want := "StatusError"
			if name == "thrown" {
				want = "controller_test.go" // where it was thrown
			}
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s: %q is not in the log:\n%s", name, want, log.String())
			}
		})
	}
}

func TestErrorsKeepWhatTheyWrap(t *testing.T) {
	if Terminal(nil) != nil || !errors.Is(Terminal(errBroken), errBroken) {
		t.Error("Terminal")
	}
	if err := (&PanicError{Value: errBroken}); !errors.Is(err, errBroken) {
		t.Error("PanicError")
	}
	if err := (&PanicError{Value: "text"}); err.Unwrap() != nil || err.Error() != "panic: text" {
		t.Error(err)
	}
}

// TestContextEndsWithTheReconcile, so that goroutines left over from the reconcile notice.
func TestContextEndsWithTheReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left context.Context
		c := New("test", func(ctx context.Context, _ object.Key) (Result, error) {
			if left = ctx; ctx.Err() != nil {
				t.Errorf("it has ended before: %v", ctx.Err())
			}
			return Result{}, nil
		}, Options{})
		stop := running(t, c)
		c.Enqueue(key("a"))
		synctest.Wait()
		if left == nil || left.Err() == nil {
			t.Error("the context goes on")
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestDefaults are those documented in Options.
func TestDefaults(t *testing.T) {
	o := Options{Workers: -1}.withDefaults()
	if o.Workers != 1 || o.Timeout != 5*time.Minute || o.SyncTimeout != 2*time.Minute || o.StopTimeout != 30*time.Second || o.MaxGateWait != 10*time.Second || o.Logger != slog.Default() {
		t.Errorf("%+v", o)
	}
	given := Options{Workers: 2, Timeout: -1, SyncTimeout: 3, StopTimeout: 4, MaxGateWait: -5, Logger: slog.New(slog.DiscardHandler)}
	if !reflect.DeepEqual(given.withDefaults(), given) {
		t.Errorf("%+v became %+v", given, given.withDefaults())
	}
}

func TestTimeoutHasACause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		var log logText
		c := New("test", func(ctx context.Context, _ object.Key) (Result, error) {
			if cause == nil {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return Result{}, ctx.Err()
			}
			return Result{}, nil
		}, Options{Timeout: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		stop := running(t, c)
		c.Enqueue(key("a"))
		time.Sleep(time.Hour)
		if err := stop(); err != nil {
			t.Error(err)
		}
		timeout, ok := errors.AsType[*TimeoutError](cause)
		if !ok || timeout.Key != key("a") || !errors.Is(cause, context.DeadlineExceeded) {
			t.Errorf("cause: %v", cause)
		}
		if want := "reconcile of shop/a took longer than 1m0s: context deadline exceeded"; !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in the log:\n%s", want, log.String())
		}
		if st := c.Stats(); st.Timeouts != 1 || st.Errors != 1 || st.Reconciles != 2 {
			t.Errorf("%+v", st)
		}
	})
}

func TestWorkersAreParallelButNotOnOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy, most atomic.Int64
		c := New("test", func(context.Context, object.Key) (Result, error) {
			most.Store(max(most.Load(), busy.Add(1)))
			time.Sleep(time.Second)
			busy.Add(-1)
			return Result{}, nil
		}, Options{Workers: 3})
		running(t, c)
		for range 10 {
			c.Enqueue(key("same"))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		if most.Load() != 1 {
			t.Errorf("one key was with %d workers", most.Load())
		}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			c.Enqueue(key(name))
		}
		time.Sleep(time.Minute)
		if most.Load() != 3 {
			t.Errorf("%d of 3 workers were busy", most.Load())
		}
	})
}

// TestRequeuesDoNotStarveTheInitialList reconciles an initial list whose keys are requeued all the time.
func TestRequeuesDoNotStarveTheInitialList(t *testing.T) {
	for name, result := range map[string]struct {
		result Result
		err    error
	}{"periodic": {result: Result{RequeueAfter: time.Second}}, "failing": {err: errBroken}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				cache := newPodCache(s)
				const pods = 100
				for i := range pods {
					s.put(pod(strconv.Itoa(i), ""))
				}
				cache.advance(-1)
				seen := newCalls()
				c := New("test", func(_ context.Context, key object.Key) (Result, error) {
					time.Sleep(100 * time.Millisecond)
					seen.add(key)
					return result.result, result.err
				}, Options{Logger: slog.New(slog.DiscardHandler), RateLimiter: &workqueue.Exponential[object.Key]{Base: time.Second}})
				Watch(c, cache, Self[*corev1.Pod])
				stop := running(t, c)
				time.Sleep(pods*100*time.Millisecond + time.Millisecond)
				keys := seen.take()
				slices.Sort(keys)
				if n := len(slices.Compact(keys)); n != pods {
					t.Errorf("%d of %d keys were reconciled", n, pods)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestHealthForgetsKeysThatAreDone has a reconcile that takes longer than permitted but returns after all.
func TestHealthForgetsKeysThatAreDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := New("test", func(context.Context, object.Key) (Result, error) {
			<-release
			return Result{}, nil
		}, Options{Workers: 2})
		stop := running(t, c)
		c.Enqueue(key("a"))
		c.Enqueue(key("b"))
		time.Sleep(time.Hour)
		if err := c.Healthz(); err == nil || c.Stats().ActiveWorkers != 2 {
			t.Errorf("%v, %d active workers", err, c.Stats().ActiveWorkers)
		}
		close(release)
		synctest.Wait()
		if err := c.Healthz(); err != nil || c.Stats().ActiveWorkers != 0 {
			t.Errorf("%v, %d active workers", err, c.Stats().ActiveWorkers)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestWrongSetup makes mistakes that neither panic nor go unnoticed: Run returns them if their errors were ignored.
func TestWrongSetup(t *testing.T) {
	cache := newPodCache(newServer())
	for want, setUp := range map[string]func(c *Controller) error{
		"controller test: Watch needs a cache":     func(c *Controller) error { return Watch(c, nil, Self[*corev1.Pod]) },
		"controller test: Use needs a cache":       func(c *Controller) error { return Use[*corev1.Pod](c, nil) },
		"controller test: WatchKeys needs a cache": func(c *Controller) error { return WatchKeys[*corev1.Pod](c, nil) },
		"controller test: Watch of pods: the mapper or a predicate is nil": func(c *Controller) error {
			return Watch(c, cache, nil)
		},
	} {
		c := New("test", succeed, Options{})
		if err := setUp(c); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if err := c.Run(t.Context()); err == nil || err.Error() != want {
			t.Errorf("Run: got  %v\nwant %s", err, want)
		}
	}
	if err := New("", succeed, Options{}).Run(t.Context()); err == nil {
		t.Error("a controller without a name runs")
	}
}

// TestStopFromAReconcile stops a controller from a reconcile that waits for that.
func TestStopFromAReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done, release := make(chan error, 1), make(chan struct{})
		c := New("test", func(context.Context, object.Key) (Result, error) {
			cancel()
			<-release
			return Result{}, nil
		}, Options{StopTimeout: time.Minute})
		c.Enqueue(key("a"))
		go func() { done <- c.Run(ctx) }()
		if err := <-done; !errors.Is(err, ErrStillRunning) || !strings.Contains(err.Error(), "reconcile of shop/a") {
			t.Error(err)
		}
		close(release)
	})
}
