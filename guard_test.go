package tidings_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
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
