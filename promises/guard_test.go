package promises_test

import (
	"context"
	"fmt"
	"io"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

func TestGuardNamesTheHandlerThatWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var caught []tidings.Mutation
		c := newCluster()
		c.write(newPod("a", "x"))
		inf := start(t, c, tidings.InformerOptions[pod]{Options: tidings.Options{
			OnMutation: func(m tidings.Mutation) { caught = append(caught, m) },
		}})
		mustAdd(t, inf, tidings.HandlerFuncs[pod]{Add: func(p pod, _ bool) { p.Spec.NodeName = "mine" }},
			tidings.HandlerOptions{Name: "vandal"})
		synctest.Wait()
		if len(caught) != 1 || caught[0].Handler != "vandal" || caught[0].Key.String() != "a/x" || caught[0].Resource != "pods" {
			t.Errorf("caught %+v, want the vandal at a/x", caught)
		}
		if n := inf.Status().Mutations; n != 1 {
			t.Errorf("%d mutations counted, want 1", n)
		}
	})
}

func TestGuardFindsWritersOutsideHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		found := 0
		c := newCluster()
		inf := start(t, c, tidings.InformerOptions[pod]{Options: tidings.Options{OnMutation: func(tidings.Mutation) { found++ }}})
		synctest.Wait()
		for i := range 20_000 {
			c.write(newPod("a", fmt.Sprint(i%100)))
			if i%50 == 0 {
				synctest.Wait()
				for _, cached := range inf.Snapshot().All() {
					cached.Spec.NodeName = "mine"
				}
			}
		}
		synctest.Wait()
		if found == 0 {
			t.Error("nobody noticed that every object was written to")
		}
	})
}

// grumpy is an object whose encoder panics, or encodes it differently each time.
type grumpy struct{ corev1.Pod }

func (g *grumpy) DeepCopyObject() runtime.Object { return &grumpy{*g.DeepCopy()} }

func (g *grumpy) Marshal() ([]byte, error) { panic("no bytes today") }

func (g *grumpy) MarshalJSON() ([]byte, error) { panic("no text today") }

// TestGuardRunsNoCodeOfTheObject has objects that would crash the process if it did.
func TestGuardRunsNoCodeOfTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects = 2000
		src := source.Funcs[*grumpy]{
			ListFunc: func(_ context.Context, _ source.ListOptions[*grumpy], each func(*grumpy) error) (source.ListResult, error) {
				return source.ListResult{ResourceVersion: "1"}, nil
			},
			WatchFunc: func(ctx context.Context, opts source.WatchOptions[*grumpy]) (source.Stream[*grumpy], error) {
				if opts.SendInitialEvents {
					return nil, invalid("sendInitialEvents: forbidden")
				}
				return &grumpyWatch{ctx: ctx, left: objects}, nil
			},
		}
		inf, err := tidings.NewInformer[*grumpy](src, tidings.InformerOptions[*grumpy]{})
		if err != nil {
			t.Fatal(err)
		}
		delivered := 0
		if _, err := inf.AddHandler(tidings.HandlerFuncs[*grumpy]{Add: func(*grumpy, bool) { delivered++ }}, tidings.HandlerOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := inf.Stop(t.Context()); err != nil { // which checks what was remembered
			t.Fatal(err)
		}
		if st := inf.Status(); delivered != objects || st.Mutations != 0 {
			t.Errorf("%d of %d delivered, %d mutations; want all and none", delivered, objects, st.Mutations)
		}
	})
}

type grumpyWatch struct {
	ctx  context.Context
	left int
}

func (w *grumpyWatch) Next(buf []source.Event[*grumpy]) ([]source.Event[*grumpy], error) {
	if w.left == 0 {
		<-w.ctx.Done()
		return buf, io.EOF
	}
	g := &grumpy{*newPod("a", fmt.Sprint(w.left))}
	g.ResourceVersion = fmt.Sprint(10_000 - w.left)
	w.left--
	return append(buf, source.Event[*grumpy]{Type: source.Added, Object: g, ResourceVersion: g.ResourceVersion}), nil
}

func (w *grumpyWatch) Close() error { return nil }

// TestWriterInASmallCache: a worker writes to the cached object that it got, every time, in a cache
// with few objects and few changes. That is found within seconds, and lists put right what was
// written, whether the guard requested them or the server lost its history. It makes no difference whether objects are
// folded.
func TestWriterInASmallCache(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector reports the write to a cached object itself")
	}
	t.Run("open", func(t *testing.T) { writerInASmallCache(t, 0) })
	t.Run("folded", func(t *testing.T) { writerInASmallCache(t, 1) })
}

func writerInASmallCache(t *testing.T, budget int64) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		const pods, minutes = 50, 20
		for i := range pods {
			server.Create(newPod("a", fmt.Sprint("p", i)))
		}
		var found atomic.Int64
		factory, err := tidings.NewFactory(server.Config(), tidings.Options{
			OnMutation: func(tidings.Mutation) { found.Add(1) }, MemoryBudget: budget,
		})
		if err != nil {
			t.Fatal(err)
		}
		inf, err := tidings.Informer[pod](factory, tidings.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		var idle atomic.Bool
		queue := make(chan tidings.Key, 1000)
		mustAdd(t, inf, tidings.KeyHandler[pod](func(k tidings.Key) { queue <- k }), tidings.HandlerOptions{})
		if err := factory.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		done := make(chan bool)
		go func() { // the worker
			defer close(done)
			for key := range queue {
				time.Sleep(time.Millisecond)
				if p, ok := inf.Get(key); ok && !idle.Load() {
					p.Status.Phase = corev1.PodRunning
				}
			}
		}()
		changes, first := minutes*60, time.Duration(0)
		start := time.Now()
		for i := range changes {
			server.Update(newPod("a", fmt.Sprint("p", i%pods)))
			time.Sleep(time.Second)
			if first == 0 && found.Load() > 0 {
				first = time.Since(start)
			}
		}
		relists := inf.Status().Parts[0].Reflector.Relists
		t.Logf("%d of %d writes found, the first after %v; %d relists", found.Load(), changes, first, relists)
		if n := found.Load(); n < int64(changes)*9/10 || first > 10*time.Second {
			t.Errorf("%d of %d writes were found, the first after %v", n, changes, first)
		}
		if relists == 0 || relists > 4 {
			t.Errorf("%d relists in %d minutes", relists, minutes)
		}
		wrong := func() (n int) {
			for _, p := range inf.Snapshot().All() {
				if p.Status.Phase != "" {
					n++
				}
			}
			return n
		}
		before := wrong()
		idle.Store(true)
		server.Stop()
		server.Create(newPod("b", "later"))
		server.Compact()
		server.Start()
		time.Sleep(5 * time.Minute)
		if after := wrong(); before == 0 && budget == 0 || after > 0 { // with a budget nobody may hold them any more
			t.Errorf("%d objects are not as in the server, after a list %d", before, after)
		}
		close(queue)
		<-done
		if err := factory.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestOneWriteIsHealed: a single write to an object of a quiet cache is found and put right, and
// handlers are notified of that.
func TestOneWriteIsHealed(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector reports the write to a cached object itself")
	}
	t.Run("open", func(t *testing.T) { oneWriteIsHealed(t, 0) })
	t.Run("folded", func(t *testing.T) { oneWriteIsHealed(t, 1) })
}

func oneWriteIsHealed(t *testing.T, budget int64) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		for i := range 20 {
			server.Create(newPod("a", fmt.Sprint("p", i)))
		}
		var found atomic.Int64
		factory, err := tidings.NewFactory(server.Config(), tidings.Options{
			OnMutation: func(tidings.Mutation) { found.Add(1) }, MemoryBudget: budget,
		})
		if err != nil {
			t.Fatal(err)
		}
		inf, err := tidings.Informer[pod](factory, tidings.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		var updates atomic.Int64
		mustAdd(t, inf, tidings.HandlerFuncs[pod]{Update: func(old, new pod) {
			if old.Status.Phase == corev1.PodRunning && new.Status.Phase == "" {
				updates.Add(1)
			}
		}}, tidings.HandlerOptions{})
		if err := factory.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		held, _ := inf.Get(tidings.Key{Namespace: "a", Name: "p7"})
		held.Status.Phase = corev1.PodRunning
		time.Sleep(6 * time.Minute)
		goruntime.KeepAlive(held)
		p, _ := inf.Get(tidings.Key{Namespace: "a", Name: "p7"})
		if found.Load() != 1 || updates.Load() != 1 || p.Status.Phase != "" || inf.Fresh() != nil {
			t.Errorf("%d findings, %d updates, the phase is %q; %v", found.Load(), updates.Load(), p.Status.Phase, inf.Fresh())
		}
		if err := factory.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
