package promises_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/source/recording"
	"github.com/tidings/tidings/tidingstest"
	"github.com/tidings/tidings/tidingstest/recorder"
)

// clusters is a cluster for each namespace, so that a test can let one of them fail.
type clusters map[string]*cluster

// start runs an informer over the namespaces until the test ends.
func (cs clusters) start(t *testing.T, opts tidings.Options, namespaces ...string) *tidings.SharedInformer[pod] {
	t.Helper()
	f := tidings.NewSourceFactory(opts)
	tidings.SetSource(f, func(_ tidings.Scope, namespace string) (source.ListerWatcher[pod], error) {
		if cs[namespace] == nil {
			cs[namespace] = newCluster()
		}
		return cs[namespace], nil
	})
	inf, err := tidings.Informer[pod](f, tidings.Scope{Namespaces: namespaces})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return inf
}

func TestSetNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := clusters{"a": newCluster(), "b": newCluster(), "c": newCluster()}
		cs["a"].write(newPod("a", "x"))
		cs["b"].write(newPod("b", "y"))
		cs["c"].write(newPod("c", "z"))
		inf := cs.start(t, tidings.Options{}, "a", "b")
		var r told
		mustAdd(t, inf, &r, tidings.HandlerOptions{})
		synctest.Wait()
		if got := r.take(); len(got) != 2 {
			t.Fatalf("told of %v at first, want a/x and b/y", got)
		}
		lists := cs["b"].listed()

		if err := inf.SetNamespaces(t.Context(), "c", "b"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.want(t, "delete a/x@1?", "add c/z@1 initial")
		if cs["b"].listed() != lists {
			t.Error("a namespace that stayed was listed again")
		}
		cs["a"].write(newPod("a", "late"))
		cs["b"].write(newPod("b", "y"))
		synctest.Wait()
		r.want(t, "update b/y 1→2")
		if _, ok := inf.Get(object.Key{Namespace: "a", Name: "x"}); ok || inf.Snapshot().Len() != 2 {
			t.Error("the store still holds what is out of scope")
		}
		if err := inf.Fresh(); err != nil {
			t.Error(err)
		}
		if err := inf.WaitForVersion(t.Context(), "a", "1"); !errors.Is(err, tidings.ErrOutOfScope) {
			t.Errorf("WaitForVersion in a namespace that is gone: %v", err)
		}
	})
}

// TestNamespaceThatComesBackIsNotOlderThanItWas: a replica of the server that lags behind still has
// objects whose deletion handlers have seen.
func TestNamespaceThatComesBackIsNotOlderThanItWas(t *testing.T) {
	for _, back := range [][]string{{"a", "b"}, {tidings.All}} {
		synctest.Test(t, func(t *testing.T) {
			server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
			for _, namespace := range []string{"a", "b"} {
				server.Create(newPod(namespace, "p"))
			}
			factory, err := tidings.NewFactory(server.Config(), tidings.Options{NoWatchList: true})
			if err != nil {
				t.Fatal(err)
			}
			inf, err := tidings.Informer[pod](factory, tidings.Scope{Namespaces: []string{"a", "b"}})
			if err != nil {
				t.Fatal(err)
			}
			var heard recorder.Recorder[pod]
			mustAdd(t, inf, tidings.DeltaFunc[pod](heard.Delta), tidings.HandlerOptions{})
			if err := factory.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for range 5 {
				server.Update(newPod("b", "p"))
			}
			synctest.Wait()
			if err := inf.SetNamespaces(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			server.Inject(tidingstest.List, tidingstest.Fault{Lag: 3})
			if err := inf.SetNamespaces(t.Context(), back...); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			want := server.Versions(podResource)
			if err := heard.Err(); err != nil || !inf.HasSynced() || inf.Snapshot().Len() != len(want) || len(heard.State()) != len(want) {
				t.Errorf("to %q: %v; synced %t, %d objects, %d told of", back, err, inf.HasSynced(), inf.Snapshot().Len(), len(heard.State()))
			}
			if err := factory.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSetNamespacesOfASharedInformer(t *testing.T) {
	f := tidings.NewSourceFactory(tidings.Options{})
	tidings.SetSource(f, func(tidings.Scope, string) (source.ListerWatcher[pod], error) { return newCluster(), nil })
	scope := tidings.Scope{Namespaces: []string{"a"}}
	one, err := tidings.Informer[pod](f, scope)
	if err != nil {
		t.Fatal(err)
	}
	two, err := tidings.Informer[pod](f, scope)
	if err != nil {
		t.Fatal(err)
	}
	if err := one.SetNamespaces(t.Context(), "b"); err == nil {
		t.Error("the namespaces of an informer that is shared were changed")
	}
	if err := two.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := one.SetNamespaces(t.Context(), "b"); err != nil {
		t.Error(err)
	}
	three, err := tidings.Informer[pod](f, scope)
	if err != nil {
		t.Fatal(err)
	}
	if got := three.Namespaces(); len(got) != 1 || got[0] != "a" {
		t.Errorf("a new informer of the scope holds %v", got)
	}
	if err := f.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestOneForbiddenNamespaceDoesNotSilenceTheOthers has a namespace that cannot be listed.
func TestOneForbiddenNamespaceDoesNotSilenceTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := clusters{"a": newCluster(), "b": newCluster()}
		cs["a"].write(newPod("a", "x"))
		cs["b"].fail(forbidden())
		inf := cs.start(t, tidings.Options{}, "a", "b")
		var r told
		reg := mustAdd(t, inf, &r, tidings.HandlerOptions{OnSynced: func() { r.say("synced") }})
		synctest.Wait()
		cs["a"].write(newPod("a", "x"))
		synctest.Wait()
		r.want(t, "add a/x@1 initial", "update a/x 1→2")
		err := inf.Fresh()
		var syncErr *tidings.SyncError
		if !errors.As(err, &syncErr) || syncErr.Namespace != "b" || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("Fresh: %v, want a SyncError that names the namespace and the reason", err)
		}
		if inf.HasSynced() || reg.HasSynced() {
			t.Error("called synced although a namespace is missing")
		}
		cs["b"].write(newPod("b", "y"))
		cs["b"].fail(nil)
		if err := reg.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.want(t, "add b/y@1 initial", "synced")
	})
}

// TestWaitForDoesNotWaitForOtherNamespaces has a namespace in which nothing happens.
func TestWaitForDoesNotWaitForOtherNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := clusters{"a": newCluster(), "quiet": newCluster()}
		cs["a"].version, cs["quiet"].version = 5, 5 // a list at version 0 says nothing
		inf := cs.start(t, tidings.Options{}, "a", "quiet")
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		written := cs["a"].write(newPod("a", "x"))
		if err := inf.WaitFor(t.Context(), written); err != nil {
			t.Fatal(err)
		}
		if err := inf.WaitForVersion(t.Context(), "a", written.ResourceVersion); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("waited %v for what is there", took)
		}
		if _, ok := inf.Get(object.KeyOf(written)); !ok {
			t.Error("the object that was waited for is not in the store")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := inf.WaitForVersion(ctx, tidings.All, written.ResourceVersion); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the whole scope is called current to what one namespace has not reached: %v", err)
		}
		if err := inf.WaitFor(t.Context(), newPod("elsewhere", "x")); err == nil {
			t.Error("waited for an object without a version")
		}
		elsewhere := newPod("elsewhere", "x")
		elsewhere.ResourceVersion = "1"
		if err := inf.WaitFor(t.Context(), elsewhere); !errors.Is(err, tidings.ErrOutOfScope) {
			t.Errorf("WaitFor an object out of scope: %v", err)
		}
	})
}

// TestBlockWithSeveralNamespaces would hang the bubble if a part waited for a mutex while another waits for room.
func TestBlockWithSeveralNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := clusters{"a": newCluster(), "b": newCluster()}
		inf := cs.start(t, tidings.Options{}, "a", "b")
		seen := 0
		reg := mustAdd(t, inf, tidings.HandlerFuncs[pod]{
			Add:    func(pod, bool) { seen++; time.Sleep(time.Second) },
			Update: func(_, _ pod) { seen++; time.Sleep(time.Second) },
		}, tidings.HandlerOptions{Policy: tidings.Block, Buffer: 2})
		if err := reg.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			cs["a"].write(newPod("a", "x"))
			cs["b"].write(newPod("b", "x"))
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if seen != 40 {
			t.Errorf("%d changes delivered, want 40", seen)
		}
	})
}

// TestWaitEndsWithItsNamespace waits in a namespace that is removed from the informer.
func TestWaitEndsWithItsNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := clusters{}
		inf := cs.start(t, tidings.Options{}, "a", "b")
		synctest.Wait()
		waits := make(chan error, 2)
		obj := newPod("a", "x")
		obj.ResourceVersion = "7"
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go func() { waits <- inf.WaitForVersion(ctx, "a", "7") }()
		go func() { waits <- inf.WaitFor(ctx, obj) }()
		synctest.Wait()
		if err := inf.SetNamespaces(ctx, "b"); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := <-waits; !errors.Is(err, tidings.ErrOutOfScope) {
				t.Errorf("the wait ended with %v, want ErrOutOfScope", err)
			}
		}
	})
}

// TestWaitGoesOnInAWiderScope waits in a namespace that becomes part of a wider scope.
func TestWaitGoesOnInAWiderScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := clusters{"a": newCluster(), tidings.All: newCluster()}
		cs[tidings.All].write(newPod("b", "y"))
		inf := cs.start(t, tidings.Options{}, "a")
		synctest.Wait()
		waited := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go func() { waited <- inf.WaitForVersion(ctx, "a", "2") }()
		synctest.Wait()
		if err := inf.SetNamespaces(ctx, tidings.All); err != nil {
			t.Fatal(err)
		}
		cs[tidings.All].write(newPod("a", "x"))
		if err := <-waited; err != nil {
			t.Error(err)
		}
	})
}

// TestSetNamespacesKeepsWhatStaysInScope widens the scope to all namespaces and narrows it again.
func TestSetNamespacesKeepsWhatStaysInScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, a := newCluster(), newCluster()
		x := newPod("a", "x")
		a.write(x)
		all.write(x)
		all.write(newPod("b", "y"))
		cs := clusters{"a": a, tidings.All: all}
		inf := cs.start(t, tidings.Options{}, "a")
		var r told
		mustAdd(t, inf, &r, tidings.HandlerOptions{})
		synctest.Wait()
		r.want(t, "add a/x@1 initial")
		if err := inf.SetNamespaces(t.Context(), tidings.All); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.want(t, "add b/y@2 initial")
		if err := inf.SetNamespaces(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.want(t, "delete b/y@2?")
		if inf.Snapshot().Len() != 1 {
			t.Errorf("%d objects", inf.Snapshot().Len())
		}
	})
}

// TestScopeOfStatusFollowsTheNamespaces changes the namespaces.
func TestStatusTellsTheNamespacesThereAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := clusters{}.start(t, tidings.Options{}, "a")
		synctest.Wait()
		if err := inf.SetNamespaces(t.Context(), "b", "c"); err != nil {
			t.Fatal(err)
		}
		if got := inf.Status().Scope; got != "namespaces=b,c" {
			t.Errorf("scope %q, want namespaces=b,c", got)
		}
		if err := inf.SetNamespaces(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := inf.Status().Scope; got != "" {
			t.Errorf("scope %q, want none", got)
		}
	})
}

// TestWaitForSyncLearnsOfNamespaces removes the namespace that cannot be listed, with a context that has ended.
func TestWaitForSyncLearnsOfNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := clusters{"a": newCluster(), "b": newCluster()}
		cs["b"].fail(forbidden())
		inf := cs.start(t, tidings.Options{}, "a", "b")
		waited := make(chan error, 1)
		wait, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		go func() { waited <- inf.WaitForSync(wait) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = inf.SetNamespaces(ctx, "a")
		if err := <-waited; err != nil {
			t.Error(err)
		}
	})
}

// TestNamespaceTakenOverFromARestoredServer narrows the scope just after the server was restored
// from a backup, before that was noticed: the narrower list and watch begins at a newer version
// than the server's.
func TestNamespaceTakenOverFromARestoredServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		kept := c.write(newPod("a", "kept"))
		c.write(newPod("a", "changed"))
		changed := c.write(newPod("a", "changed"))
		cs := clusters{"a": c, tidings.All: c}
		inf := cs.start(t, tidings.Options{}, tidings.All)
		var r told
		mustAdd(t, inf, &r, tidings.HandlerOptions{})
		c.write(newPod("a", "changed"))
		c.write(newPod("a", "lost"))
		synctest.Wait()
		r.take()
		c.restore(3, kept, changed)
		if err := inf.SetNamespaces(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if p, ok := inf.Get(object.KeyOf(changed)); inf.Snapshot().Len() != 2 || !ok || p.ResourceVersion != "3" || inf.ResourceVersionIn("a") != "3" {
			t.Errorf("the store has %d objects at %s, want those of the backup", inf.Snapshot().Len(), inf.ResourceVersionIn("a"))
		}
		r.want(t, "update a/changed 4→3", "delete a/lost@5?")
		c.write(newPod("a", "after"))
		synctest.Wait()
		r.want(t, "add a/after@4")
	})
}

// TestReadersOfNamespaces: listers and snapshots read one namespace, or all.
func TestReadersOfNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		for _, namespace := range []string{"a", "b", "c"} {
			c.write(newPod(namespace, "x"))
			c.write(newPod(namespace, "y"))
		}
		inf := start(t, c, tidings.InformerOptions[pod]{})
		synctest.Wait()
		for namespace, want := range map[string]string{"b": "b/x b/y", "none": "", tidings.All: "a/x a/y b/x b/y c/x c/y"} {
			var held []pod
			for _, p := range inf.Snapshot().Namespace(namespace) {
				held = append(held, p)
			}
			l := inf.Lister().Namespace(namespace)
			if names(held) != want || names(slices.Collect(l.All())) != want || names(l.List()) != want {
				t.Errorf("in %q: %s, %s and %s, want %s", namespace, names(held), names(slices.Collect(l.All())), names(l.List()), want)
			}
		}
		for p := range inf.Lister().All() { // whoever reads may stop
			if p.Namespace != "a" || p.Name != "x" {
				t.Errorf("%s/%s comes first", p.Namespace, p.Name)
			}
			break
		}
	})
}

// TestSourceThatCannotBeMade for an added namespace: nothing has changed, and the namespace can be added later.
func TestSourceThatCannotBeMade(t *testing.T) {
	for name, refuse := range map[string]func() error{
		"error": func() error { return errors.New("not today") }, "panic": func() error { panic("not today") }, "nil": func() error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				c.write(newPod("b", "x"))
				f := tidings.NewSourceFactory(tidings.Options{})
				tidings.SetSource(f, func(_ tidings.Scope, namespace string) (source.ListerWatcher[pod], error) {
					if namespace == "b" && refuse != nil {
						return nil, refuse()
					}
					return c, nil
				})
				inf, err := tidings.Informer[pod](f, tidings.Scope{Namespaces: []string{"a"}})
				if err != nil {
					t.Fatal(err)
				}
				if err := f.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				func() {
					defer func() { _ = recover() }()
					if err := inf.SetNamespaces(t.Context(), "a", "b"); err == nil {
						t.Error("no error")
					}
				}()
				if got := inf.Namespaces(); !slices.Equal(got, []string{"a"}) {
					t.Errorf("it holds %v", got)
				}
				refuse = nil
				if err := inf.SetNamespaces(t.Context(), "a", "b"); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if _, ok := inf.Get(tidings.Key{Namespace: "b", Name: "x"}); !ok || !inf.HasSynced() {
					t.Errorf("b has not been listed; synced: %t", inf.HasSynced())
				}
				if err := f.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestSourceFuncThatReturnsNothing: the error says so, whether or not the source would be recorded.
func TestSourceFuncThatReturnsNothing(t *testing.T) {
	recorder, err := recording.NewRecorder(io.Discard, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, opts := range []tidings.Options{{}, {Recorder: recorder}} {
		f := tidings.NewSourceFactory(opts)
		tidings.SetSource(f, func(tidings.Scope, string) (source.ListerWatcher[pod], error) { return nil, nil })
		_, err := tidings.Informer[pod](f, tidings.Scope{})
		if err == nil {
			err = f.Start(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), "neither a source nor an error") {
			t.Errorf("with a recorder: %t: %v", opts.Recorder != nil, err)
		}
	}
}

// TestNamespacesOfAStoppedInformer cannot be changed.
func TestNamespacesOfAStoppedInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := clusters{}.start(t, tidings.Options{}, "a")
		if err := inf.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := inf.SetNamespaces(t.Context(), "b"); !errors.Is(err, tidings.ErrStopped) {
			t.Errorf("%v, want ErrStopped", err)
		}
	})
}

// TestBlockHandlerWaitsForSync: the first list of a namespace does not wait for room, since a
// handler may be waiting for it.
func TestBlockHandlerWaitsForSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := clusters{"a": newCluster(), "b": newCluster()}
		cs["a"].write(newPod("a", "x"))
		cs["b"].fail(errors.New("down"))
		inf := cs.start(t, tidings.Options{}, "a", "b")
		waited := make(chan error, 1)
		mustAdd(t, inf, tidings.HandlerFuncs[pod]{Add: func(pod, bool) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			waited <- inf.WaitForSync(ctx)
		}}, tidings.HandlerOptions{Policy: tidings.Block, Buffer: 1})
		for range 3 {
			synctest.Wait()
			cs["a"].write(newPod("a", "x"))
		}
		cs["b"].fail(nil)
		if err := <-waited; err != nil {
			t.Error(err)
		}
	})
}

// TestHandlerAddedWhileANamespaceIsListed has synced once that namespace has been delivered too.
func TestHandlerAddedWhileANamespaceIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := clusters{"a": newCluster(), "b": newCluster()}
		cs["a"].write(newPod("a", "x"))
		cs["b"].write(newPod("b", "y"))
		cs["b"].fail(forbidden())
		inf := cs.start(t, tidings.Options{}, "a")
		var before, r told
		mustAdd(t, inf, &before, tidings.HandlerOptions{OnSynced: func() { before.say("synced") }})
		synctest.Wait()
		before.want(t, "add a/x@1 initial", "synced")
		if err := inf.SetNamespaces(t.Context(), "a", "b"); err != nil {
			t.Fatal(err)
		}
		reg := mustAdd(t, inf, &r, tidings.HandlerOptions{OnSynced: func() { r.say("synced") }})
		synctest.Wait()
		r.want(t, "add a/x@1 initial")
		if inf.HasSynced() || reg.HasSynced() {
			t.Errorf("the informer has synced %t, the handler %t, without a namespace", inf.HasSynced(), reg.HasSynced())
		}
		cs["b"].fail(nil)
		if err := reg.WaitForSync(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		r.want(t, "add b/y@1 initial", "synced")
		before.want(t, "add b/y@1 initial")
	})
}

// TestReleasedReference can no longer change what others use.
func TestReleasedReference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := tidings.NewSourceFactory(tidings.Options{})
		c := newCluster()
		tidings.SetSource(f, func(tidings.Scope, string) (source.ListerWatcher[pod], error) { return c, nil })
		var refs []*tidings.SharedInformer[pod]
		for range 2 {
			inf, err := tidings.Informer[pod](f, tidings.Scope{Namespaces: []string{"a"}})
			if err != nil {
				t.Fatal(err)
			}
			refs = append(refs, inf)
		}
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := refs[0].Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := refs[0].SetNamespaces(t.Context(), "b"); !errors.Is(err, tidings.ErrStopped) || !slices.Equal(refs[1].Namespaces(), []string{"a"}) {
			t.Errorf("%v; the other user's informer holds %v", err, refs[1].Namespaces())
		}
		calls := 0
		ix := refs[0].AddIndex("late", func(p pod) []string { calls++; return []string{p.Name} })
		c.write(newPod("a", "x"))
		synctest.Wait()
		if refs[1].Snapshot().Len() != 1 || calls != 0 {
			t.Errorf("the index function was called %d times for a change", calls)
		}
		if found := slices.Collect(ix.All("x")); len(found) != 1 {
			t.Errorf("%d objects found", len(found))
		}
		if err := f.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
