package promises_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// inNamespace is a source for one namespace of a cluster; "" means all of them.
type inNamespace struct {
	*cluster
	namespace string
}

func (n inNamespace) List(ctx context.Context, opts source.ListOptions[pod], each func(pod) error) (source.ListResult, error) {
	return n.cluster.List(ctx, opts, func(p pod) error {
		if n.namespace != "" && p.Namespace != n.namespace {
			return nil
		}
		return each(p)
	})
}

func (n inNamespace) Watch(ctx context.Context, opts source.WatchOptions[pod]) (source.Stream[pod], error) {
	s, err := n.cluster.Watch(ctx, opts)
	return namespaceWatch{s, n.namespace}, err
}

type namespaceWatch struct {
	source.Stream[pod]
	namespace string
}

func (w namespaceWatch) Next(buf []source.Event[pod]) ([]source.Event[pod], error) {
	for {
		events, err := w.Stream.Next(buf)
		kept := slices.DeleteFunc(events, func(e source.Event[pod]) bool {
			return w.namespace != "" && e.Object.Namespace != w.namespace
		})
		if len(kept) > len(buf) || err != nil {
			return kept, err
		}
	}
}

// TestNamespacesChurn changes objects, the namespaces of the informer and its handlers at random,
// and breaks watches and lists. In the end the store holds the part of the cluster that is in
// scope, and so does each handler's replay.
func TestNamespacesChurn(t *testing.T) {
	testseed.Each(t, 10, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { churn(t, rand.New(rand.NewPCG(seed, 0)), seed) })
	})
}

func churn(t *testing.T, rnd *rand.Rand, seed uint64) {
	c := newCluster()
	c.write(newPod("0", "0"))
	f := tidings.NewSourceFactory(tidings.Options{Seed: seed | 1, StaleAfter: time.Hour})
	tidings.SetSource(f, func(_ tidings.Scope, ns string) (source.ListerWatcher[pod], error) { return inNamespace{c, ns}, nil })
	inf, err := tidings.Informer[pod](f, tidings.Scope{Namespaces: []string{"0"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var replays []*replayed
	addHandler := func() {
		r := &replayed{t: t, state: map[object.Key]pod{}, delay: time.Duration(rnd.IntN(4)) * time.Millisecond}
		replays = append(replays, r)
		mustAdd(t, inf, r, tidings.HandlerOptions{
			Policy: tidings.Policy(rnd.IntN(3)), Buffer: 10, Resync: time.Duration(rnd.IntN(3)) * time.Second,
		})
	}
	addHandler()
	scopes := [][]string{{"0"}, {"0", "1"}, {"1", "2"}, {tidings.All}, {"0", "1", "2"}}
	for range 1000 {
		key := object.Key{Namespace: fmt.Sprint(rnd.IntN(3)), Name: fmt.Sprint(rnd.IntN(20))}
		switch rnd.IntN(60) {
		case 0:
			c.forget()
		case 1, 2:
			time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
		case 3, 4:
			if err := inf.SetNamespaces(t.Context(), scopes[rnd.IntN(len(scopes))]...); err != nil {
				t.Fatal(err)
			}
		case 5:
			if len(replays) < 6 {
				addHandler()
			}
		case 6:
			c.fail(expired())
			time.Sleep(time.Duration(rnd.IntN(1000)) * time.Millisecond)
			c.fail(nil)
		case 7, 8, 9, 10, 11, 12, 13, 14, 15, 16:
			c.remove(key)
		default:
			c.write(newPod(key.Namespace, key.Name))
		}
	}
	time.Sleep(10 * time.Minute)
	if err := inf.Fresh(); err != nil {
		t.Error(err)
	}
	if err := f.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := 0
	for key, p := range c.pods {
		if held := inf.Namespaces(); !slices.Contains(held, tidings.All) && !slices.Contains(held, key.Namespace) {
			continue
		}
		want++
		if got, ok := inf.Get(key); !ok || got.ResourceVersion != p.ResourceVersion {
			t.Errorf("%s: store has %v, cluster has %s", key, got, p.ResourceVersion)
		}
	}
	if got := inf.Snapshot().Len(); got != want {
		t.Errorf("store has %d objects, the scope has %d", got, want)
	}
	for i, r := range replays {
		r.mustEqual(inf.Snapshot(), fmt.Sprint("handler ", i))
	}
}
