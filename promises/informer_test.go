package promises_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// told records a handler's notifications, as "add a/x@3", "update a/x 3→4", "delete a/x@4?".
type told struct {
	mu    sync.Mutex
	lines []string
}

func (r *told) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *told) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return lines
}

func (r *told) OnAdd(p pod, initial bool) {
	mark := ""
	if initial {
		mark = " initial"
	}
	r.say("add %s@%s%s", object.KeyOf(p), p.ResourceVersion, mark)
}

func (r *told) OnUpdate(old, new pod) {
	r.say("update %s %s→%s", object.KeyOf(new), old.ResourceVersion, new.ResourceVersion)
}

func (r *told) OnDelete(gone tidings.Tombstone[pod]) {
	mark := ""
	if gone.FinalStateUnknown {
		mark = "?"
	}
	r.say("delete %s@%s%s", gone.Key, gone.Object.ResourceVersion, mark)
}

func (r *told) want(t *testing.T, lines ...string) {
	t.Helper()
	if got := r.take(); !slices.Equal(got, lines) {
		t.Fatalf("the handler was told\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(lines, "\n\t"))
	}
}

func TestHandlerIsToldOfEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("a", "x"))
		inf := start(t, c, tidings.InformerOptions[pod]{})
		var r told
		mustAdd(t, inf, &r, tidings.HandlerOptions{})
		synctest.Wait()
		r.want(t, "add a/x@1 initial")

		c.write(newPod("a", "y"))
		synctest.Wait()
		c.write(newPod("a", "x"))
		synctest.Wait()
		c.remove(object.Key{Namespace: "a", Name: "y"})
		synctest.Wait()
		r.want(t, "add a/y@2", "update a/x 1→3", "delete a/y@4")
		if got := inf.Snapshot().ResourceVersion(); got != "4" {
			t.Errorf("resource version %q, want 4", got)
		}
	})
}

func TestLateHandlerGetsTheInitialListFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("a", "x"))
		inf := start(t, c, tidings.InformerOptions[pod]{})
		synctest.Wait()
		c.write(newPod("a", "y"))
		synctest.Wait()
		var r told
		reg := mustAdd(t, inf, &r, tidings.HandlerOptions{})
		if err := reg.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.want(t, "add a/x@1 initial", "add a/y@2 initial")
	})
}

func TestMissedDeleteIsATombstone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("a", "x"))
		c.write(newPod("a", "y"))
		inf := start(t, c, tidings.InformerOptions[pod]{})
		var r told
		mustAdd(t, inf, &r, tidings.HandlerOptions{})
		synctest.Wait()
		r.take()

		c.fail(errors.New("down"))
		c.remove(object.Key{Namespace: "a", Name: "x"})
		c.remove(object.Key{Namespace: "a", Name: "y"})
		c.write(newPod("a", "y"))
		c.fail(nil)
		c.forget()
		time.Sleep(time.Minute) // the bubble's time: the backoff passes
		synctest.Wait()
		r.want(t, "delete a/x@1?", "delete a/y@2?", "add a/y@5")
	})
}

func TestRelistOfTheSameTellsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		for i := range 10 {
			c.write(newPod("a", fmt.Sprint(i)))
		}
		inf := start(t, c, tidings.InformerOptions[pod]{})
		var r told
		mustAdd(t, inf, &r, tidings.HandlerOptions{})
		synctest.Wait()
		r.take()
		before := c.listed()
		c.write(newPod("b", "new"))
		synctest.Wait()
		r.want(t, "add b/new@11")
		c.forget()
		c.write(newPod("b", "newer")) // the watch cannot be resumed before this
		c.forget()
		time.Sleep(time.Minute)
		synctest.Wait()
		if c.listed() == before {
			t.Fatal("the informer did not relist; the test shows nothing")
		}
		r.want(t, "add b/newer@12")
	})
}

func TestResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("a", "x"))
		inf := start(t, c, tidings.InformerOptions[pod]{})
		var often, never told
		mustAdd(t, inf, &often, tidings.HandlerOptions{Resync: time.Minute})
		mustAdd(t, inf, &never, tidings.HandlerOptions{})
		time.Sleep(2*time.Minute + time.Second)
		synctest.Wait()
		often.want(t, "add a/x@1 initial", "update a/x 1→1", "update a/x 1→1")
		never.want(t, "add a/x@1 initial")
	})
}

func TestCoalesceMergesWhileTheHandlerIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("a", "x"))
		inf := start(t, c, tidings.InformerOptions[pod]{})
		var r told
		resume := make(chan struct{})
		reg := mustAdd(t, inf, tidings.HandlerFuncs[pod]{
			Add:    func(p pod, initial bool) { r.OnAdd(p, initial); <-resume },
			Update: r.OnUpdate,
			Delete: r.OnDelete,
		}, tidings.HandlerOptions{})
		synctest.Wait()
		for range 100 {
			c.write(newPod("a", "x"))
			c.write(newPod("a", "y"))
			c.write(newPod("a", "z"))
			c.remove(object.Key{Namespace: "a", Name: "z"})
		}
		synctest.Wait()
		time.Sleep(time.Second)
		// the running call, an update of x and an addition of y; z was added and deleted
		if st := reg.Status(); st.Pending != 3 || st.Lag < time.Second {
			t.Errorf("status %+v, want 3 pending and a lag of a second", st)
		}
		close(resume)
		synctest.Wait()
		r.want(t, "add a/x@1 initial", "update a/x 1→398", "add a/y@399")
	})
}

func TestUnboundedAndBlockDeliverEverything(t *testing.T) {
	for _, policy := range []tidings.Policy{tidings.Block, tidings.Unbounded} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				inf := start(t, c, tidings.InformerOptions[pod]{})
				updates := 0
				mustAdd(t, inf, tidings.HandlerFuncs[pod]{
					Add:    func(pod, bool) { time.Sleep(time.Second) },
					Update: func(_, _ pod) { updates++; time.Sleep(time.Second) },
				}, tidings.HandlerOptions{Policy: policy, Buffer: 3})
				synctest.Wait()
				for range 20 {
					c.write(newPod("a", "x"))
					synctest.Wait()
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if updates != 19 {
					t.Errorf("%d updates delivered, want 19", updates)
				}
			})
		})
	}
}

func TestBlockHoldsTheInformerAndNotItsUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		inf := start(t, c, tidings.InformerOptions[pod]{})
		resume := make(chan struct{})
		slow := mustAdd(t, inf, tidings.HandlerFuncs[pod]{Add: func(pod, bool) { <-resume }},
			tidings.HandlerOptions{Name: "slow", Policy: tidings.Block, Buffer: 2})
		synctest.Wait()
		for i := range 50 {
			c.write(newPod("a", fmt.Sprint(i)))
			synctest.Wait()
		}
		if n := inf.Snapshot().Len(); n >= 50 {
			t.Errorf("the store has taken all %d objects, although the handler blocks", n)
		}
		if st := slow.Status(); st.Pending > 5 {
			t.Errorf("%d pending with a buffer of 2", st.Pending)
		}
		mustAdd(t, inf, &told{}, tidings.HandlerOptions{}) // would hang if the informer held its lock
		close(resume)
		synctest.Wait()
		if n := inf.Snapshot().Len(); n != 50 {
			t.Errorf("%d objects in the end, want 50", n)
		}
	})
}

// TestBlockHoldsRelistsToo: a list can contain any number of changes.
func TestBlockHoldsRelistsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		inf := start(t, c, tidings.InformerOptions[pod]{})
		resume := make(chan struct{})
		slow := mustAdd(t, inf, tidings.HandlerFuncs[pod]{Add: func(pod, bool) { <-resume }}, tidings.HandlerOptions{Policy: tidings.Block, Buffer: 2})
		synctest.Wait()
		for i := range 20 {
			for j := range 5 {
				c.write(newPod("a", fmt.Sprint(i, "-", j)))
			}
			c.forget()
			time.Sleep(time.Minute)
		}
		if st := slow.Status(); st.Pending > 20 || inf.Snapshot().Len() > 20 {
			t.Errorf("%d pending with a buffer of 2, and %d objects in the store", st.Pending, inf.Snapshot().Len())
		}
		close(resume)
		time.Sleep(time.Minute)
		if n := inf.Snapshot().Len(); n != 100 {
			t.Errorf("%d objects in the end, want 100", n)
		}
	})
}

// TestPendingIsExact: pending deltas are counted individually, even if they arrived together.
func TestPendingIsExact(t *testing.T) {
	for _, policy := range []tidings.Policy{tidings.Block, tidings.Unbounded} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster()
			inf := start(t, c, tidings.InformerOptions[pod]{})
			next := make(chan struct{})
			reg := mustAdd(t, inf, tidings.HandlerFuncs[pod]{Add: func(pod, bool) { <-next }}, tidings.HandlerOptions{Policy: policy})
			synctest.Wait()
			c.write(newPod("a", "first"))
			synctest.Wait()
			for i := range 5 {
				c.write(newPod("a", fmt.Sprint(i)))
			}
			for left := 6; left > 0; left-- {
				synctest.Wait()
				if st := reg.Status(); st.Pending != left || st.Delivered != uint64(7-left) {
					t.Errorf("%v: %+v, want %d pending with the one that is being handled", policy, st, left)
				}
				next <- struct{}{}
			}
			synctest.Wait()
			if st := reg.Status(); st.Pending != 0 || st.Lag != 0 {
				t.Errorf("%v: %+v in the end", policy, st)
			}
		})
	}
}

func TestPanicInAHandlerStaysThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log output
		c := newCluster()
		inf := start(t, c, tidings.InformerOptions[pod]{Options: tidings.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
		var r told
		bad := mustAdd(t, inf, tidings.HandlerFuncs[pod]{Add: func(p pod, initial bool) {
			r.OnAdd(p, initial)
			panic("bad handler")
		}}, tidings.HandlerOptions{Name: "bad"})
		synctest.Wait()
		c.write(newPod("a", "x"))
		c.write(newPod("a", "y"))
		synctest.Wait()
		r.want(t, "add a/x@1", "add a/y@2")
		if text := log.take(); !strings.Contains(text, "handler=bad key=a/x") || !strings.Contains(text, `panic="bad handler"`) {
			t.Errorf("the log does not say which handler panicked for what: %s", text)
		}
		if st := bad.Status(); st.Panics != 2 || !bad.HasSynced() {
			t.Errorf("%d panics counted, want 2; synced: %t", st.Panics, bad.HasSynced())
		}
	})
}

func TestRemovedHandlerIsNotCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		inf := start(t, c, tidings.InformerOptions[pod]{})
		var stays, goes told
		mustAdd(t, inf, &stays, tidings.HandlerOptions{})
		reg := mustAdd(t, inf, &goes, tidings.HandlerOptions{})
		synctest.Wait()
		if err := reg.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := reg.Remove(t.Context()); err != nil {
			t.Fatal("a second Remove:", err)
		}
		c.write(newPod("a", "x"))
		synctest.Wait()
		stays.want(t, "add a/x@1")
		goes.want(t)
	})
}

func TestRemoveNamesAHandlerThatDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		inf := start(t, c, tidings.InformerOptions[pod]{})
		resume := make(chan struct{})
		defer close(resume)
		reg := mustAdd(t, inf, tidings.HandlerFuncs[pod]{Add: func(pod, bool) { <-resume }}, tidings.HandlerOptions{Name: "stuck"})
		synctest.Wait()
		c.write(newPod("a", "x"))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var stop *tidings.StopError
		if err := reg.Remove(ctx); !errors.As(err, &stop) || !slices.Equal(stop.Handlers, []string{"stuck"}) {
			t.Errorf("Remove: %v, want a StopError that names the handler", err)
		}
	})
}

func TestIndexesAndListers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		inf := start(t, c, tidings.InformerOptions[pod]{})
		early := inf.AddIndex("node", func(p pod) []string { return []string{p.Spec.NodeName} })
		synctest.Wait()
		for i := range 10 {
			p := newPod("a", fmt.Sprint(i))
			p.Spec.NodeName = fmt.Sprint("node-", i%2)
			p.Labels = map[string]string{"odd": fmt.Sprint(i%2 == 1)}
			c.write(p)
		}
		c.write(newPod("b", "0"))
		synctest.Wait()
		late := inf.AddIndex("node", func(p pod) []string { return []string{p.Spec.NodeName} })
		for name, ix := range map[string]*tidings.Index[pod]{"early": early, "late": late} {
			if got := names(slices.Collect(ix.All("node-1"))); got != "a/1 a/3 a/5 a/7 a/9" {
				t.Errorf("%s index: %s", name, got)
			}
		}
		lister := inf.Lister()
		if p, ok := lister.Namespace("b").Get("0"); !ok || p.Namespace != "b" {
			t.Errorf("Get: %v %v", p, ok)
		}
		odd := lister.Labels(labels.SelectorFromSet(labels.Set{"odd": "true"}))
		if got := names(odd.List()); got != "a/1 a/3 a/5 a/7 a/9" {
			t.Errorf("by label: %s", got)
		}
		if _, ok := odd.Namespace("a").Get("2"); ok {
			t.Error("Get found an object that the selector excludes")
		}
		for namespace, want := range map[string]int{tidings.All: 11, "a": 10, "b": 1, "c": 0} {
			if n := len(lister.Namespace(namespace).List()); n != want {
				t.Errorf("%d objects in namespace %q, want %d", n, namespace, want)
			}
		}
	})
}

func names(pods []pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, object.KeyOf(p).String())
	}
	return strings.Join(out, " ")
}

func TestPanickingIndexLosesOnlyItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := newCluster()
		inf := start(t, c, tidings.InformerOptions[pod]{Options: tidings.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
		ix := inf.AddIndex("bad", func(p pod) []string {
			if p.Name == "x" {
				panic("cannot index x")
			}
			return []string{"all"}
		})
		synctest.Wait()
		c.write(newPod("a", "x"))
		c.write(newPod("a", "y"))
		synctest.Wait()
		if got := names(slices.Collect(ix.All("all"))); got != "a/y" {
			t.Errorf("index: %s, want a/y", got)
		}
		if st := inf.Status(); st.Objects != 2 || st.IndexPanics != 1 {
			t.Errorf("status %+v, want 2 objects and one panic", st)
		}
		if text := log.String(); !strings.Contains(text, "index=bad") || !strings.Contains(text, "key=a/x") || !strings.Contains(text, "cannot index x") {
			t.Errorf("the log does not say which index panicked for what: %s", text)
		}
	})
}

func TestWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		inf := start(t, c, tidings.InformerOptions[pod]{})
		synctest.Wait()
		written := c.write(newPod("a", "x"))
		if err := inf.WaitFor(t.Context(), written); err != nil {
			t.Fatal(err)
		}
		if _, ok := inf.Get(object.KeyOf(written)); !ok {
			t.Error("the store does not hold what was waited for")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := inf.WaitForVersion(ctx, tidings.All, "99")
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "99") {
			t.Errorf("WaitFor a version that does not come: %v", err)
		}
		if err := inf.WaitForVersion(t.Context(), tidings.All, "abc"); err == nil {
			t.Error("WaitFor took a version that is no number")
		}
		if err := inf.WaitForVersion(t.Context(), tidings.All, ""); err == nil {
			t.Error("WaitFor took an empty version")
		}
	})
}

func TestTransform(t *testing.T) {
	var failures []error
	var log output
	transform := func(p pod) (pod, error) {
		switch p.Name {
		case "nil":
			return nil, nil
		case "error":
			return nil, errors.New("no")
		case "panic":
			panic("oh")
		case "clears":
			p.ResourceVersion, p.UID = "", ""
		}
		p.Annotations = map[string]string{"transformed": "yes"}
		return p, nil
	}
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("a", "good"))
		inf := start(t, c, tidings.InformerOptions[pod]{
			Transform: transform,
			Options: tidings.Options{
				OnError: func(err error) { failures = append(failures, err) }, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			},
		})
		var r told
		mustAdd(t, inf, &r, tidings.HandlerOptions{})
		synctest.Wait()
		for _, name := range []string{"nil", "error", "panic", "clears"} {
			c.write(newPod("a", name))
			synctest.Wait()
		}
		c.write(newPod("a", "clears"))
		synctest.Wait()
		r.want(t, "add a/good@1 initial", "add a/error@3", "add a/panic@4", "add a/clears@5", "update a/clears 5→6")
		if st := inf.Status(); st.LeftOut != 1 {
			t.Errorf("%d objects are left out, want that of which the transform made nil", st.LeftOut)
		}
		if len(failures) != 4 {
			t.Errorf("%d failures reported, want 4: %v", len(failures), failures)
		}
		for _, err := range failures {
			if !errors.Is(err, tidings.ErrTransform) || !strings.Contains(err.Error(), "pods a/") {
				t.Errorf("failure %v: want ErrTransform and the object's key", err)
			}
		}
		text := log.take()
		if !strings.Contains(text, "transform failed") || !strings.Contains(text, "key=a/error") {
			t.Errorf("the log does not say for what the transform failed: %s", text)
		}
		if !strings.Contains(text, "only that was put back") || strings.Count(text, "kept as it came") != 1 {
			t.Errorf("the log does not say that the rest of the transform's work was kept: %s", text)
		}
		if err := errors.Join(failures...); !strings.Contains(err.Error(), "it panicked: oh") || !strings.Contains(err.Error(), "no\n") {
			t.Errorf("failures %v: want the reasons", err)
		}
		if p, _ := inf.Get(object.Key{Namespace: "a", Name: "clears"}); p.Annotations["transformed"] != "yes" {
			t.Error("the transform's work was lost")
		}
	})
}

// TestRelistIsTransformed: objects from a list are transformed, except for those that have not changed.
func TestRelistIsTransformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := map[string]int{}
		c := newCluster()
		c.write(newPod("a", "changes"))
		c.write(newPod("a", "stays"))
		inf := start(t, reusing{c}, tidings.InformerOptions[pod]{Transform: func(p pod) (pod, error) {
			calls[p.Name]++
			p.Annotations = map[string]string{"at": p.ResourceVersion}
			return p, nil
		}})
		synctest.Wait()
		c.fail(errors.New("down"))
		c.write(newPod("a", "changes"))
		c.write(newPod("a", "new"))
		c.forget()
		c.fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		for name, want := range map[string]string{"changes": "3", "stays": "2", "new": "4"} {
			if p, ok := inf.Get(object.Key{Namespace: "a", Name: name}); !ok || p.ResourceVersion != want || p.Annotations["at"] != want {
				t.Errorf("%s is %v, want the transformed state at %s", name, p, want)
			}
		}
		if calls["changes"] != 2 || calls["stays"] != 1 || calls["new"] != 1 {
			t.Errorf("the transform was called %v times", calls)
		}
	})
}

// TestSetTransform sets the transform of a shared informer: once, and before the start.
func TestSetTransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("a", "x"))
		f := tidings.NewSourceFactory(tidings.Options{})
		tidings.SetSource(f, func(tidings.Scope, string) (source.ListerWatcher[pod], error) { return c, nil })
		label := func(value string) func(pod) (pod, error) {
			return func(p pod) (pod, error) {
				p.Labels = map[string]string{"by": value}
				return p, nil
			}
		}
		inf, err := tidings.Informer[pod](f, tidings.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		if err := inf.SetTransform(label("first")); err != nil {
			t.Fatal(err)
		}
		again, err := tidings.Informer[pod](f, tidings.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		if err := again.SetTransform(label("second")); err == nil || !strings.Contains(err.Error(), "another scope") {
			t.Errorf("a second transform: %v, want an error with the way out", err)
		}
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := inf.SetTransform(label("late")); !errors.Is(err, tidings.ErrStarted) {
			t.Errorf("a transform after the start: %v, want ErrStarted", err)
		}
		if p, ok := inf.Get(object.Key{Namespace: "a", Name: "x"}); !ok || p.Labels["by"] != "first" {
			t.Errorf("the store has %v, want what the first transform made", p)
		}
		if err := f.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestReplayEqualsStore changes objects at random and breaks the watch at random; whatever the policy, replaying a
// handler's notifications yields the store, and that equals the cluster.
func TestReplayEqualsStore(t *testing.T) { testReplayEqualsStore(t, 0) }

// TestReplayEqualsFoldedStore does the same with a budget that allows hardly any open objects, and with a tight one.
func TestReplayEqualsFoldedStore(t *testing.T) {
	testReplayEqualsStore(t, 1)
	testReplayEqualsStore(t, 60_000)
}

func testReplayEqualsStore(t *testing.T, budget int64) {
	seed := testseed.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		inf := start(t, c, tidings.InformerOptions[pod]{Options: tidings.Options{Seed: seed | 1, MemoryBudget: budget}})
		var replays []*replayed
		for i, policy := range []tidings.Policy{tidings.Coalesce, tidings.Coalesce, tidings.Block, tidings.Unbounded} {
			r := &replayed{t: t, state: map[object.Key]pod{}, delay: time.Duration(i) * time.Millisecond}
			replays = append(replays, r)
			if _, err := inf.HandleDeltas("discard", func(tidings.Delta[pod]) {}); err != nil {
				t.Fatal(err)
			}
			mustAdd(t, inf, r, tidings.HandlerOptions{Policy: policy, Buffer: 10, Resync: time.Duration(i) * time.Second})
		}
		for range 2000 {
			key := object.Key{Namespace: fmt.Sprint(rnd.IntN(3)), Name: fmt.Sprint(rnd.IntN(20))}
			switch rnd.IntN(40) {
			case 0:
				c.forget()
			case 1:
				time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
			case 2, 3, 4, 5, 6, 7, 8, 9:
				c.remove(key)
			default:
				c.write(newPod(key.Namespace, key.Name))
			}
		}
		time.Sleep(10 * time.Minute)
		if err := inf.Stop(t.Context()); err != nil { // so that no resync runs while the states are compared
			t.Fatal(err)
		}
		for key, want := range c.pods {
			if got, ok := inf.Get(key); !ok || got.ResourceVersion != want.ResourceVersion {
				t.Fatalf("seed %d: %s: store has %v, cluster has %s", seed, key, got, want.ResourceVersion)
			}
		}
		if got := inf.Snapshot().Len(); got != len(c.pods) {
			t.Fatalf("seed %d: store has %d objects, cluster has %d", seed, got, len(c.pods))
		}
		for i, r := range replays {
			r.mustEqual(inf.Snapshot(), fmt.Sprintf("seed %d: handler %d", seed, i))
		}
	})
}

// replayed rebuilds the collection from a handler's notifications, and fails the test if they are inconsistent.
type replayed struct {
	t     *testing.T
	state map[object.Key]pod
	delay time.Duration
	// rewinds says that the server may go back to an earlier state.
	rewinds bool
}

func (r *replayed) OnAdd(p pod, _ bool) {
	time.Sleep(r.delay)
	if known, ok := r.state[object.KeyOf(p)]; ok {
		r.t.Errorf("add of %s@%s, which is known @%s", object.KeyOf(p), p.ResourceVersion, known.ResourceVersion)
	}
	r.state[object.KeyOf(p)] = p
}

func (r *replayed) OnUpdate(old, new pod) {
	time.Sleep(r.delay)
	key := object.KeyOf(new)
	if known := r.state[key]; known != old {
		r.t.Errorf("update of %s from @%s, but @%v was told last", key, old.ResourceVersion, known)
	}
	if object.OlderResourceVersion(new.ResourceVersion, old.ResourceVersion) && !r.rewinds || old.UID != new.UID {
		r.t.Errorf("update of %s from %s@%s to %s@%s", key, old.UID, old.ResourceVersion, new.UID, new.ResourceVersion)
	}
	r.state[key] = new
}

func (r *replayed) OnDelete(gone tidings.Tombstone[pod]) {
	time.Sleep(r.delay)
	if known, ok := r.state[gone.Key]; !ok || known.UID != gone.Object.UID {
		r.t.Errorf("delete of %s %s, but %v was told last", gone.Key, gone.Object.UID, known)
	}
	delete(r.state, gone.Key)
}

func (r *replayed) mustEqual(snap tidings.Snapshot[pod], who string) {
	r.t.Helper()
	if len(r.state) != snap.Len() {
		r.t.Errorf("%s was told of %d objects, the store has %d", who, len(r.state), snap.Len())
	}
	for key, p := range snap.All() {
		if r.state[key] != p {
			r.t.Errorf("%s: %s is %v, the store has %s", who, key, r.state[key], p.ResourceVersion)
		}
	}
}
