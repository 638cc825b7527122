package promises_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// TestSyncDoesNotPassOverWhatCannotBeDecoded starts with an object that cannot be decoded, and
// relists with another one.
func TestSyncDoesNotPassOverWhatCannotBeDecoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		bad, good := object.Key{Namespace: "a", Name: "bad"}, object.Key{Namespace: "a", Name: "good"}
		c.write(newPod("a", "bad"))
		c.write(newPod("a", "good"))
		c.spoil(bad, true)
		inf := start(t, c, tidings.InformerOptions[pod]{})
		var r told
		mustAdd(t, inf, &r, tidings.HandlerOptions{})
		var syncErr *tidings.SyncError
		if err := inf.WaitForSync(t.Context()); !errors.As(err, &syncErr) || !errors.Is(err, tidings.ErrSkipped) || !strings.Contains(err.Error(), "a/bad") {
			t.Errorf("WaitForSync: %v, want an error that names a/bad", err)
		}
		if !inf.HasSynced() || inf.Snapshot().Len() != 1 {
			t.Errorf("synced %v with %d objects, want the one that can be decoded", inf.HasSynced(), inf.Snapshot().Len())
		}
		if st := inf.Status(); st.SkippedCount != 1 || len(st.Skipped) != 1 || st.Skipped[0].Key != bad {
			t.Errorf("status names %v as skipped, want a/bad", st.Skipped)
		}
		if err := inf.Fresh(); !errors.Is(err, tidings.ErrSkipped) {
			t.Errorf("Fresh: %v, want ErrSkipped", err)
		}

		c.spoil(bad, false)
		c.spoil(good, true)
		c.forget()
		c.write(newPod("b", "new"))
		c.forget()
		time.Sleep(time.Minute)
		synctest.Wait()
		r.want(t, "add a/good@2 initial", "add a/bad@1", "add b/new@3")
		if _, ok := inf.Get(good); !ok {
			t.Error("an object that the server has was taken for deleted")
		}
		if st := inf.Status(); st.SkippedCount != 1 || st.Skipped[0].Key != good {
			t.Errorf("status names %v as skipped, want a/good", st.Skipped)
		}

		c.remove(good)
		synctest.Wait()
		r.want(t, "delete a/good@2?")
		if err := inf.Fresh(); err != nil {
			t.Errorf("Fresh after all was well: %v", err)
		}
	})
}

// TestVersionIsNotAheadOfTheSnapshot reads versions while a handler and writers are busy.
func TestVersionIsNotAheadOfTheSnapshot(t *testing.T) {
	c := newCluster()
	inf := start(t, c, tidings.InformerOptions[pod]{})
	if err := inf.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 5000 {
			c.write(newPod("a", fmt.Sprint(i)))
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		version := inf.ResourceVersionIn("a")
		// Each write adds one pod, so the version is the number of pods.
		if n := inf.Snapshot().Len(); object.OlderResourceVersion(fmt.Sprint(n), version) {
			t.Fatalf("the version is %s while the snapshot has %d pods", version, n)
		}
	}
}

// TestOlderVersionOfAnotherObject has a source whose versions do not grow from object to object,
// like those of fake clients and of views that leave objects out.
func TestOlderVersionOfAnotherObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.version = 10
		inf := start(t, c, tidings.InformerOptions[pod]{})
		var r told
		mustAdd(t, inf, &r, tidings.HandlerOptions{})
		synctest.Wait()
		at := func(name, version string) pod {
			p := newPod("a", name)
			p.ResourceVersion, p.UID = version, types.UID(name)
			return p
		}
		c.send(source.Event[pod]{Type: source.Added, Object: at("x", "100"), ResourceVersion: "100"})
		c.send(source.Event[pod]{Type: source.Added, Object: at("y", "50"), ResourceVersion: "50"})
		c.send(source.Event[pod]{Type: source.Added, Object: at("gone", "5"), ResourceVersion: "5"}) // the list at 10 proves that
		synctest.Wait()
		r.want(t, "add a/x@100", "add a/y@50")

		// Repeated events do not restore old states.
		c.send(source.Event[pod]{Type: source.Deleted, Object: at("y", "120"), ResourceVersion: "120"})
		c.send(source.Event[pod]{Type: source.Added, Object: at("y", "50"), ResourceVersion: "50"})
		c.send(source.Event[pod]{Type: source.Modified, Object: at("y", "119"), ResourceVersion: "119"})
		synctest.Wait()
		r.want(t, "delete a/y@120")
	})
}

// TestRestoredServer goes back to an earlier state, as after a restore from a backup.
func TestRestoredServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		kept := c.write(newPod("a", "kept"))
		changed := c.write(newPod("a", "changed"))
		inf := start(t, c, tidings.InformerOptions[pod]{})
		var r told
		mustAdd(t, inf, &r, tidings.HandlerOptions{})
		synctest.Wait()
		c.write(newPod("a", "changed"))
		lost := c.write(newPod("a", "lost"))
		synctest.Wait()
		r.take()
		waited := make(chan error, 1)
		go func() { waited <- inf.WaitForVersion(t.Context(), tidings.All, "100") }()
		synctest.Wait()

		c.restore(2, kept, changed)
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, ok := inf.Get(object.KeyOf(lost)); ok {
			t.Error("the store holds what the restored server does not have")
		}
		got := r.take()
		if len(got) != 2 || got[0] != "update a/changed 3→2" || !strings.HasPrefix(got[1], "delete a/lost") {
			t.Errorf("told of %q, want the update back and the deletion", got)
		}
		if err := inf.Fresh(); err != nil {
			t.Error(err)
		}
		select {
		case err := <-waited:
			if err == nil {
				t.Error("a wait for a version that never was ended well")
			}
		default:
			t.Error("a wait for a version that no longer exists goes on")
		}
		c.write(newPod("a", "after"))
		synctest.Wait()
		r.want(t, "add a/after@3")
	})
}

// TestStaleReplicaIsNotARestore asks a server that is behind once.
func TestStaleReplicaIsNotARestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		old := c.write(newPod("a", "x"))
		inf := start(t, c, tidings.InformerOptions[pod]{})
		var r told
		mustAdd(t, inf, &r, tidings.HandlerOptions{})
		synctest.Wait()
		newest := c.write(newPod("a", "x"))
		synctest.Wait()
		r.take()
		c.restore(1, old)
		time.Sleep(500 * time.Millisecond)
		c.restore(2, newest)
		time.Sleep(time.Minute)
		synctest.Wait()
		r.want(t)
	})
}

// TestFreshSaysWhatIsWrongAtOnce checks the health of an informer whose server begins to reject it.
func TestFreshSaysWhatIsWrongAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		inf := start(t, c, tidings.InformerOptions[pod]{})
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := inf.Fresh(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		c.fail(forbidden())
		synctest.Wait()
		time.Sleep(100 * time.Millisecond) // a watch is reopened some milliseconds later
		var stale *tidings.StaleError
		if err := inf.Fresh(); !errors.As(err, &stale) || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("Fresh: %v, want a StaleError with the reason", err)
		}
		c.fail(nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if err := inf.Fresh(); err != nil {
			t.Errorf("Fresh after it healed: %v", err)
		}
		if err := inf.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := inf.Fresh(); !errors.Is(err, tidings.ErrStopped) {
			t.Errorf("Fresh after the stop: %v", err)
		}
	})
}

// TestRemovedBlockHandlerHoldsNobodyBack removes a stuck handler.
func TestRemovedBlockHandlerHoldsNobodyBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		inf := start(t, c, tidings.InformerOptions[pod]{})
		resume := make(chan struct{})
		defer close(resume)
		reg := mustAdd(t, inf, tidings.HandlerFuncs[pod]{Add: func(pod, bool) { <-resume }}, tidings.HandlerOptions{Policy: tidings.Block, Buffer: 1})
		synctest.Wait()
		for i := range 20 {
			c.write(newPod("a", fmt.Sprint(i)))
			synctest.Wait()
		}
		if n := inf.Snapshot().Len(); n == 20 {
			t.Fatal("the handler holds nothing back; the test shows nothing")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := reg.Remove(ctx); err == nil {
			t.Error("Remove says that a call which is running has ended")
		}
		synctest.Wait()
		if n := inf.Snapshot().Len(); n != 20 {
			t.Errorf("%d objects after the handler was removed, want 20", n)
		}
	})
}

// TestWaitForInsideABlockHandler waits for a version that the handler itself holds back.
func TestWaitForInsideABlockHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		inf := start(t, c, tidings.InformerOptions[pod]{})
		first := make(chan struct{})
		var waited error
		mustAdd(t, inf, tidings.HandlerFuncs[pod]{Add: func(p pod, _ bool) {
			if p.Name != "0" {
				return
			}
			<-first
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			waited = inf.WaitForVersion(ctx, tidings.All, "20")
		}}, tidings.HandlerOptions{Policy: tidings.Block, Buffer: 1})
		synctest.Wait()
		for i := range 20 {
			c.write(newPod("a", fmt.Sprint(i)))
			synctest.Wait()
		}
		close(first)
		synctest.Wait()
		if waited != nil || inf.Snapshot().Len() != 20 {
			t.Errorf("the wait ended with %v, and there are %d objects; want 20", waited, inf.Snapshot().Len())
		}
	})
}

func TestFilterHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		labelled := func(name, team string) pod {
			p := newPod("a", name)
			p.Labels = map[string]string{"team": team}
			return p
		}
		c.write(labelled("x", "red"))
		c.write(labelled("y", "blue"))
		inf := start(t, c, tidings.InformerOptions[pod]{})
		var r told
		red := func(p pod) bool { return p.Labels["team"] == "red" }
		mustAdd(t, inf, tidings.FilterHandler[pod](red, &r), tidings.HandlerOptions{OnSynced: func() { r.say("synced") }})
		synctest.Wait()
		r.want(t, "add a/x@1 initial", "synced")
		for _, step := range []struct {
			write func()
			want  []string
		}{
			{func() { c.write(labelled("y", "red")) }, []string{"add a/y@3"}},
			{func() { c.write(labelled("y", "red")) }, []string{"update a/y 3→4"}},
			{func() { c.write(labelled("y", "blue")) }, []string{"delete a/y@5"}},
			{func() { c.write(labelled("y", "blue")) }, nil},
			{func() { c.remove(object.Key{Namespace: "a", Name: "y"}) }, nil},
			{func() { c.remove(object.Key{Namespace: "a", Name: "x"}) }, []string{"delete a/x@8"}},
		} {
			step.write()
			synctest.Wait()
			r.want(t, step.want...)
		}
	})
}

func TestDeltaFuncSeesWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("a", "x"))
		inf := start(t, c, tidings.InformerOptions[pod]{})
		var types []string
		mustAdd(t, inf, tidings.DeltaFunc[pod](func(d tidings.Delta[pod]) { types = append(types, d.Type.String()) }),
			tidings.HandlerOptions{Resync: time.Minute})
		synctest.Wait()
		c.write(newPod("a", "x"))
		synctest.Wait()
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if got := strings.Join(types, " "); got != "Added Updated Sync" {
			t.Errorf("deltas %q", got)
		}
	})
}

func TestNilHandlers(t *testing.T) {
	inf := start(t, newCluster(), tidings.InformerOptions[pod]{})
	for name, h := range map[string]tidings.Handler[pod]{"nil": nil, "nil pointer": (*told)(nil), "nil func": tidings.DeltaFunc[pod](nil),
		"filter for nil": tidings.FilterHandler[pod](func(pod) bool { return true }, (*told)(nil)), "filter of nil": tidings.FilterHandler[pod](nil, &told{})} {
		if _, err := inf.AddHandler(h, tidings.HandlerOptions{}); err == nil {
			t.Errorf("%s was taken for a handler", name)
		}
	}
}

// reusing is a cluster's source that returns the previous object if it has not changed, as sources over HTTP do.
type reusing struct{ *cluster }

func (r reusing) List(ctx context.Context, opts source.ListOptions[pod], each func(pod) error) (source.ListResult, error) {
	return r.cluster.List(ctx, opts, func(p pod) error { return each(reused(p, opts.Previous)) })
}

// reused returns the previous object if it has not changed, else a copy.
func reused(p pod, previous source.Previous[pod]) pod {
	if held, ok := previous(object.KeyOf(p)); ok && held.ResourceVersion == p.ResourceVersion {
		return held
	}
	return p.DeepCopy()
}

func (r reusing) Watch(ctx context.Context, opts source.WatchOptions[pod]) (source.Stream[pod], error) {
	s, err := r.cluster.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return reusingWatch{s, opts.Previous}, nil
}

type reusingWatch struct {
	source.Stream[pod]
	previous source.Previous[pod]
}

func (w reusingWatch) Next(buf []source.Event[pod]) ([]source.Event[pod], error) {
	events, err := w.Stream.Next(buf)
	for i, e := range events {
		if e.Object != nil {
			events[i].Object = reused(e.Object, w.previous)
		}
	}
	return events, err
}

// TestTransformGetsNoStoredObject repeats an event, and loses a deletion, so that the stored object arrives again.
func TestTransformGetsNoStoredObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		calls := 0
		inf, err := tidings.NewInformer[pod](reusing{c}, tidings.InformerOptions[pod]{Transform: func(p pod) (pod, error) {
			calls++
			p.Spec.NodeName += "!"
			return p, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p := c.write(newPod("a", "x"))
		synctest.Wait()
		c.send(source.Event[pod]{Type: source.Modified, Object: p, ResourceVersion: p.ResourceVersion})
		synctest.Wait()
		held, _ := inf.Get(object.KeyOf(p))
		gone := c.objectError(p, source.Deleted)
		gone.ResourceVersion = "9"
		c.send(source.Event[pod]{Type: source.Invalid, Err: gone})
		synctest.Wait()
		if inf.Snapshot().Len() != 0 {
			t.Error("the object is still there")
		}
		if calls != 1 || held.Spec.NodeName != "!" {
			t.Errorf("the stored object was transformed %d times, into %q", calls, held.Spec.NodeName)
		}
		if err := inf.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestDeletionOfAnotherObject delivers the deletion of an unseen object with the key of one in the store.
func TestDeletionOfAnotherObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		p := c.write(newPod("a", "x")).DeepCopy()
		inf := start(t, c, tidings.InformerOptions[pod]{})
		var got []tidings.Tombstone[pod]
		mustAdd(t, inf, tidings.HandlerFuncs[pod]{Delete: func(gone tidings.Tombstone[pod]) { got = append(got, gone) }}, tidings.HandlerOptions{})
		synctest.Wait()
		was := p.UID
		p.UID, p.ResourceVersion = "another", "9"
		c.send(source.Event[pod]{Type: source.Deleted, Object: p, ResourceVersion: "9"})
		synctest.Wait()
		if len(got) != 1 || got[0].Object.UID != was || !got[0].FinalStateUnknown {
			t.Errorf("told of %+v, want the deletion of %s, its final state unknown", got, was)
		}
	})
}
