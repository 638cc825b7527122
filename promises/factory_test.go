package promises_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

func newFactory(t *testing.T, host string) *tidings.Factory {
	t.Helper()
	f, err := tidings.NewFactory(&rest.Config{Host: host}, tidings.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestFactorySharesWhatIsTheSame(t *testing.T) {
	f := newFactory(t, "http://127.0.0.1:1")
	scopes := []tidings.Scope{
		{Namespaces: []string{"b", "a", "a"}, Labels: "x=1,y=2"},
		{Namespaces: []string{"a", "b"}, Labels: "y=2,x=1"}, // the same in other words
		{Namespaces: []string{"a"}, Labels: "x=1,y=2"},
		{Namespaces: []string{"a", "b"}, Labels: "x=1"},
		{Namespaces: []string{"a", "b"}, Labels: "x=1,y=2", Trim: tidings.Trim{tidings.ManagedFields}},
		{Namespaces: []string{"a", "b"}, Labels: "x=1,y=2", Fields: "spec.nodeName=n"},
	}
	for _, scope := range scopes {
		if _, err := tidings.Informer[*corev1.Pod](f, scope); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(f.Status()); n != 5 {
		t.Errorf("%d informers, want 5: the first two scopes are the same", n)
	}
}

func TestFactoryCountsUsers(t *testing.T) {
	f := newFactory(t, "http://127.0.0.1:1")
	one, err := tidings.Informer[*corev1.Pod](f, tidings.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	two, err := tidings.Informer[*corev1.Pod](f, tidings.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second stop of one must not take two's hold
		if err := one.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(f.Status()); n != 1 {
		t.Fatalf("%d informers after one of two users has stopped, want 1", n)
	}
	if err := two.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(f.Status()); n != 0 {
		t.Errorf("%d informers after the last user has stopped, want 0", n)
	}
}

func TestBadScopes(t *testing.T) {
	f := newFactory(t, "http://127.0.0.1:1")
	pods := func(scope tidings.Scope) error {
		_, err := tidings.Informer[*corev1.Pod](f, scope)
		return err
	}
	untyped := func(scope tidings.Scope) error {
		_, err := tidings.Informer[*unstructured.Unstructured](f, scope)
		return err
	}
	metadata := func(scope tidings.Scope) error {
		_, err := tidings.Informer[*metav1.PartialObjectMetadata](f, scope)
		return err
	}
	users := func(scope tidings.Scope) error {
		_, err := tidings.Informer[*grumpy](f, scope)
		return err
	}
	anything := func(scope tidings.Scope) error {
		_, err := tidings.Informer[tidings.Object](f, scope)
		return err
	}
	for name, c := range map[string]struct {
		ask   func(tidings.Scope) error
		scope tidings.Scope
		want  string
	}{
		"label selector":      {pods, tidings.Scope{Labels: "a in (b"}, `pods: label selector "a in (b"`},
		"field selector":      {pods, tidings.Scope{Fields: "a"}, `pods: field selector "a"`},
		"trim of identity":    {pods, tidings.Scope{Trim: tidings.Trim{"metadata.name"}}, "metadata.name"},
		"trim of nothing":     {pods, tidings.Scope{Trim: tidings.Trim{"spec.colour"}}, "spec.colour"},
		"untyped":             {untyped, tidings.Scope{}, "Scope.Resource"},
		"metadata":            {metadata, tidings.Scope{}, "Scope.Resource"},
		"half a resource":     {untyped, tidings.Scope{Resource: schema.GroupVersionResource{Resource: "pods"}}, "version"},
		"a type of users":     {users, tidings.Scope{}, "the scheme does not know the type"},
		"no type at all":      {anything, tidings.Scope{}, "is not a pointer to an API type"},
		"namespace with dots": {pods, tidings.Scope{Namespaces: []string{"../x"}}, "../x"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.ask(c.scope); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestLimitsReachTheSources: sources get the factory's limits, and a limit for shared parts that depends on the budget.
func TestLimitsReachTheSources(t *testing.T) {
	for _, tt := range []struct {
		opts   tidings.Options
		scope  tidings.Scope
		shared int
	}{
		{opts: tidings.Options{MaxObjectBytes: 1234}},
		{opts: tidings.Options{MaxObjectBytes: 1234, MemoryBudget: 480 << 20}, shared: 10 << 20},
		{opts: tidings.Options{MaxObjectBytes: 1234, MemoryBudget: 480 << 20}, scope: tidings.Scope{MemoryBudget: 96 << 20}, shared: 2 << 20},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got source.Scope
			f := tidings.NewSourceFactory(tt.opts)
			tidings.SetSource(f, func(scope tidings.Scope, namespace string) (source.ListerWatcher[pod], error) {
				got = scope.Source(namespace)
				return newCluster(), nil
			})
			if _, err := tidings.Informer[pod](f, tt.scope); err != nil {
				t.Fatal(err)
			}
			if err := f.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got.MaxObjectBytes != tt.opts.MaxObjectBytes || got.MaxSharedBytes != tt.shared {
				t.Errorf("%+v: objects of %d bytes, %d bytes that are shared; want %d", tt.scope, got.MaxObjectBytes, got.MaxSharedBytes, tt.shared)
			}
			if err := f.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSourcesAreMadeOnce for each namespace, including the one made to validate the scope, and
// again for a namespace that comes back; by one goroutine at a time, even if the objects' type is
// only known from the source.
func TestSourcesAreMadeOnce(t *testing.T) {
	t.Run("typed", func(t *testing.T) {
		sourcesAreMadeOnce(t, tidings.Options{}, func(client *source.Client, scope source.Scope) (source.ListerWatcher[pod], error) {
			return source.NewHTTP[pod](client, scope)
		})
	})
	t.Run("an interface", func(t *testing.T) {
		opts := tidings.Options{MemoryBudget: 1, Files: tidings.Files{Dir: t.TempDir(), ClusterID: "one"}}
		sourcesAreMadeOnce(t, opts, func(client *source.Client, scope source.Scope) (source.ListerWatcher[tidings.Object], error) {
			return source.NewHTTPLike(client, scope, newPod("", ""))
		})
	})
}

func sourcesAreMadeOnce[T tidings.Object](
	t *testing.T, opts tidings.Options, newSource func(*source.Client, source.Scope) (source.ListerWatcher[T], error),
) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		for _, namespace := range []string{"a", "b"} {
			server.Create(newPod(namespace, "p"))
		}
		client, err := source.NewClient(server.Config())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second may start from what the first has saved
			made := map[string]int{}
			f := tidings.NewSourceFactory(opts)
			tidings.SetSource(f, func(scope tidings.Scope, namespace string) (source.ListerWatcher[T], error) {
				made[namespace]++
				return newSource(client, scope.Source(namespace))
			})
			inf, err := tidings.Informer[T](f, tidings.Scope{Resource: podResource, Namespaces: []string{"a", "b"}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = inf.AddHandler(tidings.HandlerFuncs[T]{}, tidings.HandlerOptions{})
			if err == nil {
				err = f.Start(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := f.WaitForSync(t.Context()); err != nil {
				t.Fatal(err)
			}
			if want := map[string]int{"a": 1, "b": 1}; !maps.Equal(made, want) {
				t.Errorf("made %v, want %v", made, want)
			}
			for _, namespaces := range [][]string{{"b"}, {"a", "b"}} {
				if err := inf.SetNamespaces(t.Context(), namespaces...); err != nil {
					t.Fatal(err)
				}
			}
			if want := map[string]int{"a": 2, "b": 1}; !maps.Equal(made, want) {
				t.Errorf("when a has gone and come back: made %v, want %v", made, want)
			}
			if err := f.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestResourceThatAppears makes informers that wait for a resource retry immediately, whatever their backoff.
func TestResourceThatAppears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
		c.fail(apierrors.NewNotFound(pods.GroupResource(), ""))
		f := tidings.NewSourceFactory(tidings.Options{Seed: 1})
		tidings.SetSource(f, func(tidings.Scope, string) (source.ListerWatcher[pod], error) { return c, nil })
		inf, err := tidings.Informer[pod](f, tidings.Scope{Resource: pods})
		if err == nil {
			err = inf.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		c.fail(nil)
		f.ResourceAppeared(pods)
		time.Sleep(100 * time.Millisecond)
		if !inf.HasSynced() {
			t.Error("the resource is there, and was not asked for")
		}
		if err := f.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// leakless is a context that counts the functions that wait for its end.
type leakless struct {
	context.Context
	waiting atomic.Int64
}

func (c *leakless) Done() <-chan struct{} { return make(chan struct{}) }

func (c *leakless) AfterFunc(func()) (stop func() bool) {
	c.waiting.Add(1)
	return func() bool { c.waiting.Add(-1); return true }
}

// TestWaitsForAFactoryLeaveNothing behind in a long-lived context.
func TestWaitsForAFactoryLeaveNothing(t *testing.T) {
	ctx := &leakless{Context: t.Context()}
	if err := tidings.NewSourceFactory(tidings.Options{}).WaitForSync(ctx); err != nil || ctx.waiting.Load() != 0 {
		t.Errorf("%v; %d wait for the end of the context", err, ctx.waiting.Load())
	}
}

// TestFactoryAfterShutdown: a factory makes and starts nothing after its shutdown.
func TestFactoryAfterShutdown(t *testing.T) {
	f := newFactory(t, "http://127.0.0.1:1")
	if err := f.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := tidings.Informer[*corev1.Pod](f, tidings.Scope{})
	if !errors.Is(err, tidings.ErrStopped) || !strings.Contains(err.Error(), "pods: ") {
		t.Errorf("an informer of a factory that was shut down: %v", err)
	}
	if err := f.Start(t.Context()); !errors.Is(err, tidings.ErrStopped) {
		t.Errorf("a start of a factory that was shut down: %v", err)
	}
}

// TestShutdownStopsAllTogether: a shutdown takes as long as the slowest informer.
func TestShutdownStopsAllTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("a", "x"))
		f := tidings.NewSourceFactory(tidings.Options{})
		tidings.SetSource(f, func(tidings.Scope, string) (source.ListerWatcher[pod], error) { return c, nil })
		for _, labels := range []string{"a=1", "a=2", "a=3"} {
			inf, err := tidings.Informer[pod](f, tidings.Scope{Labels: labels})
			if err != nil {
				t.Fatal(err)
			}
			slow := tidings.DeltaFunc[pod](func(tidings.Delta[pod]) {
				for inf.Fresh() == nil || !errors.Is(inf.Fresh(), tidings.ErrStopped) {
					time.Sleep(time.Second)
				}
				time.Sleep(time.Minute)
			})
			mustAdd(t, inf, slow, tidings.HandlerOptions{})
		}
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		began := time.Now()
		if err := f.Shutdown(t.Context()); err != nil || time.Since(began) > 61*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestWhatAnInformerOfItsOwnCannot checks the errors of unsupported calls on a standalone informer.
func TestWhatAnInformerOfItsOwnCannot(t *testing.T) {
	if _, err := tidings.NewInformer[pod](nil, tidings.InformerOptions[pod]{}); err == nil || !strings.Contains(err.Error(), "the source is nil") {
		t.Errorf("without a source: %v", err)
	}
	inf, err := tidings.NewInformer[pod](newCluster(), tidings.InformerOptions[pod]{Name: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	unnamed, err := tidings.NewInformer[pod](newCluster(), tidings.InformerOptions[pod]{})
	if err != nil || unnamed.Name() != "*v1.Pod" || inf.Name() != "pods" {
		t.Errorf("%v; names %s and %s", err, unnamed.Name(), inf.Name())
	}
	if err := inf.SetNamespaces(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "pods: a standalone informer") {
		t.Errorf("other namespaces: %v", err)
	}
	if err := inf.WaitFor(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "it is nil") {
		t.Errorf("a wait for nothing: %v", err)
	}
	if err := errors.Join(inf.Stop(t.Context()), unnamed.Stop(t.Context())); err != nil {
		t.Error(err)
	}
}

func TestNilConfig(t *testing.T) {
	if _, err := tidings.NewFactory(nil, tidings.Options{}); err == nil {
		t.Error("a nil config was taken")
	}
}

func TestHandlerOfAnInformerThatNeverRanCanBeRemoved(t *testing.T) {
	f := newFactory(t, "http://127.0.0.1:1")
	inf, err := tidings.Informer[*corev1.Pod](f, tidings.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	reg, err := inf.AddHandler(tidings.HandlerFuncs[*corev1.Pod]{}, tidings.HandlerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := reg.Remove(ctx); err != nil {
		t.Error(err)
	}
}

// TestStopTakesItsIndexesAlong: the indexes and handlers of one user of a shared informer are
// removed with that user, and others keep theirs.
func TestStopTakesItsIndexesAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		f := tidings.NewSourceFactory(tidings.Options{})
		tidings.SetSource(f, func(tidings.Scope, string) (source.ListerWatcher[pod], error) { return c, nil })
		var users [2]*tidings.SharedInformer[pod]
		var indexed, told [2]int
		for i := range users {
			var err error
			if users[i], err = tidings.Informer[pod](f, tidings.Scope{}); err != nil {
				t.Fatal(err)
			}
			users[i].AddIndex("name", func(p pod) []string { indexed[i]++; return []string{p.Name} })
			mustAdd(t, users[i], tidings.HandlerFuncs[pod]{Add: func(pod, bool) { told[i]++ }}, tidings.HandlerOptions{})
		}
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.write(newPod("a", "x"))
		synctest.Wait()
		if err := users[0].Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := indexed[0]
		c.write(newPod("a", "y"))
		synctest.Wait()
		if indexed[0] != before || indexed[1] == before || told[0] != 1 || told[1] != 2 {
			t.Errorf("index functions were called %d and %d times, %d before the first user stopped; handlers %d and %d times", indexed[0], indexed[1], before, told[0], told[1])
		}
		if err := f.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestHandlersAfterShutdown: adding a handler after the factory's shutdown is an error.
func TestHandlersAfterShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := tidings.NewSourceFactory(tidings.Options{})
		tidings.SetSource(f, func(tidings.Scope, string) (source.ListerWatcher[pod], error) { return newCluster(), nil })
		inf, err := tidings.Informer[pod](f, tidings.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := f.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if reg, err := inf.AddHandler(tidings.HandlerFuncs[pod]{}, tidings.HandlerOptions{}); reg != nil || !errors.Is(err, tidings.ErrStopped) {
			t.Errorf("AddHandler: %v, %v, want ErrStopped", reg, err)
		}
		if remove, err := inf.HandleDeltas("late", func(tidings.Delta[pod]) {}); remove != nil || !errors.Is(err, tidings.ErrStopped) {
			t.Errorf("HandleDeltas: %v, want ErrStopped", err)
		}
	})
}

// TestWaitForSyncOfNothing does not claim that stopped informers have synced, although the factory has forgotten them.
func TestWaitForSyncOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := tidings.NewSourceFactory(tidings.Options{})
		tidings.SetSource(f, func(tidings.Scope, string) (source.ListerWatcher[pod], error) { return newCluster(), nil })
		if _, err := tidings.Informer[pod](f, tidings.Scope{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := f.Start(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		for _, wait := range []func(context.Context) error{f.WaitForSync, f.WaitForSyncFailFast} {
			if err := wait(ctx); len(f.Status()) != 0 || !errors.Is(err, context.Canceled) {
				t.Errorf("%d informers; a wait whose context has ended with them: %v", len(f.Status()), err)
			}
		}
		if err := f.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, wait := range []func(context.Context) error{f.WaitForSync, f.WaitForSyncFailFast} {
			if err := wait(t.Context()); !errors.Is(err, tidings.ErrStopped) {
				t.Errorf("after the shutdown: %v, want ErrStopped", err)
			}
		}
	})
}

// TestWaitForSyncOfWhatNeverSynced: a wait does not succeed because the context of the start has
// ended and no informer is left. It does after a stop, and with informers that were asked for
// later.
func TestWaitForSyncOfWhatNeverSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := tidings.NewSourceFactory(tidings.Options{})
		c := newCluster()
		c.fail(errors.New("down"))
		tidings.SetSource(f, func(tidings.Scope, string) (source.ListerWatcher[pod], error) { return c, nil })
		begin := func() (inf *tidings.SharedInformer[pod], end func()) {
			inf, err := tidings.Informer[pod](f, tidings.Scope{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			if err := f.Start(ctx); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return inf, func() { cancel(); synctest.Wait() }
		}
		_, end := begin()
		end()
		for _, wait := range []func(context.Context) error{f.WaitForSync, f.WaitForSyncFailFast} {
			if err := wait(t.Context()); len(f.Status()) != 0 || !errors.Is(err, tidings.ErrStopped) {
				t.Errorf("%d informers; a wait for what has ended without having synced: %v", len(f.Status()), err)
			}
		}
		inf, end := begin()
		defer end()
		if err := inf.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := f.WaitForSync(t.Context()); err != nil {
			t.Errorf("after an informer that was stopped: %v", err)
		}
		c.fail(nil)
		if _, end = begin(); f.WaitForSync(t.Context()) != nil {
			t.Error("a later informer is not waited for")
		}
		end()
		if err := f.WaitForSync(t.Context()); err != nil {
			t.Errorf("after an informer that had synced: %v", err)
		}
	})
}

// TestWaitForSyncOfOneThatNeverSynced: nor does a wait succeed because the informer that ended last had synced.
func TestWaitForSyncOfOneThatNeverSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := clusters{"good": newCluster(), "bad": newCluster()}
		cs["good"].write(newPod("good", "x"))
		cs["bad"].fail(forbidden())
		f := tidings.NewSourceFactory(tidings.Options{})
		tidings.SetSource(f, func(_ tidings.Scope, namespace string) (source.ListerWatcher[pod], error) { return cs[namespace], nil })
		for namespace := range cs {
			inf, err := tidings.Informer[pod](f, tidings.Scope{Namespaces: []string{namespace}})
			if err != nil {
				t.Fatal(err)
			}
			if namespace == "good" { // it ends later
				mustAdd(t, inf, tidings.DeltaFunc[pod](func(tidings.Delta[pod]) { time.Sleep(time.Minute) }), tidings.HandlerOptions{})
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := f.Start(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		for _, left := range []int{1, 0} {
			synctest.Wait()
			if err := f.WaitForSync(t.Context()); len(f.Status()) != left || left == 0 && !errors.Is(err, tidings.ErrStopped) {
				t.Errorf("%d informers left, want %d; a wait although one has never synced: %v", len(f.Status()), left, err)
			}
			time.Sleep(time.Minute)
		}
	})
}
