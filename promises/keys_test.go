package promises_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

// keyReader is a KeyHandler that reads the object of each key, as a reconcile would.
type keyReader struct {
	inf *tidings.SharedInformer[pod]

	mu   sync.Mutex
	seen map[object.Key]string // versions, without what was gone
}

func readKeys(t *testing.T, inf *tidings.SharedInformer[pod], opts tidings.HandlerOptions) *keyReader {
	t.Helper()
	r := &keyReader{inf: inf, seen: map[object.Key]string{}}
	mustAdd(t, inf, tidings.KeyHandler[pod](r.handle), opts)
	return r
}

func (r *keyReader) handle(key object.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o, ok := r.inf.Get(key); ok {
		r.seen[key] = o.ResourceVersion
	} else {
		delete(r.seen, key)
	}
}

// versions returns the versions of the objects in the latest notifications.
func (r *keyReader) versions() map[object.Key]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.seen)
}

// podsOf returns an informer of the server's pods without handlers, which has not been started.
func podsOf(t *testing.T, server *tidingstest.Server, opts tidings.Options) *tidings.SharedInformer[pod] {
	t.Helper()
	f, err := tidings.NewFactory(server.Config(), opts)
	if err != nil {
		t.Fatal(err)
	}
	inf, err := tidings.Informer[pod](f, tidings.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return inf
}

// TestKeysAreToldAfterEveryChange: a handler that reads the object of each key ends up with the
// server's state, whatever was folded, relisted or missed, whether it was added at the start or
// late, and with or without handlers of objects.
func TestKeysAreToldAfterEveryChange(t *testing.T) {
	testseed.Each(t, 8, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			w := &foldedServer{Rand: r, server: tidingstest.NewServer(t, tidingstest.ServerOptions{})}
			for range 40 {
				w.write()
			}
			inf := podsOf(t, w.server, tidings.Options{
				MemoryBudget: []int64{0, 1, 60_000}[r.IntN(3)], NoWatchList: r.IntN(2) == 0, Seed: seed | 1,
			})
			if r.IntN(3) == 0 {
				inf.AddIndex("node", func(p pod) []string { return []string{p.Spec.NodeName} })
			}
			policy := tidings.Policy(r.IntN(3))
			readers := map[string]*keyReader{
				"from the start": readKeys(t, inf, tidings.HandlerOptions{Policy: policy}),
				"resynced":       readKeys(t, inf, tidings.HandlerOptions{Resync: time.Minute}),
			}
			if err := inf.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			objects := r.IntN(20)
			for round := range 20 {
				switch round {
				case 10:
					readers["late"] = readKeys(t, inf, tidings.HandlerOptions{})
				case objects:
					mustAdd(t, inf, &replayed{t: t, state: map[object.Key]pod{}}, tidings.HandlerOptions{})
				}
				w.round(inf)
			}
			time.Sleep(10 * time.Minute)
			w.compare(t, inf)
			for name, reader := range readers {
				if want, got := w.server.Versions(podResource), reader.versions(); !maps.Equal(got, want) {
					t.Errorf("%s: %s", name, differ(want, got))
				}
			}
		})
	})
}

// TestKeysOpenNothing: with all objects folded, none is opened for handlers of keys: neither on a
// start from a file, nor for changes, late handlers, or a resync.
func TestKeysOpenNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, opts := saved(t, tidings.Options{MemoryBudget: 1}, tidings.Scope{})
		inf := podsOf(t, server, opts)
		var mu sync.Mutex
		told := map[object.Key]int{}
		count := tidings.KeyHandler[pod](func(key object.Key) {
			mu.Lock()
			defer mu.Unlock()
			told[key]++
		})
		mustAdd(t, inf, count, tidings.HandlerOptions{})
		check := func(when string, want ...object.Key) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if opens := inf.Status().Memory.Opens; opens > 1 { // the reflector looks at one, to see whether the server is the one it knew
				t.Errorf("%s: %d objects were opened", when, opens)
			}
			for _, key := range want {
				told[key]--
			}
			for key, n := range told {
				if n != 0 {
					t.Errorf("%s: told %+d times too often of %s", when, n, key)
				}
			}
			clear(told)
		}
		all := func() []object.Key { return slices.Collect(maps.Keys(server.Versions(podResource))) }
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if loaded := inf.Status().Parts[0].File.Loaded; loaded != savedPods {
			t.Fatalf("%d objects are from the file, want %d", loaded, savedPods)
		}
		check("start", all()...)

		changed := newPod("shop", "b")
		changed.Labels = map[string]string{"x": "y"}
		server.Update(changed)
		server.Delete(newPod("shop", "c"))
		check("changes", object.KeyOf(changed), object.Key{Namespace: "shop", Name: "c"})

		remove, err := inf.HandleKeys("keys", func(key object.Key, _ object.DeltaType, _ bool) { count(key) })
		if err != nil {
			t.Fatal(err)
		}
		check("a late function", all()...)
		remove()

		reg := mustAdd(t, inf, count, tidings.HandlerOptions{Resync: time.Hour})
		check("a late handler", all()...)
		time.Sleep(time.Hour)
		check("a resync", all()...)
		if st := reg.Status(); st.Delivered != 2*(savedPods-1) || st.Name != "tidings.KeyHandler[*k8s.io/api/core/v1.Pod]" {
			t.Errorf("status %+v", st)
		}
	})
}

// TestKeysOfAnotherNamespaceWhileBehind: a handler of keys hangs while a namespace with many
// objects is exchanged for another one, so that the latter's list is merged with the deletions.
// Nobody misses what changes next.
func TestKeysOfAnotherNamespaceWhileBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := clusters{"b": newCluster(), "c": newCluster()}
		for i := range 1200 {
			cs["b"].write(newPod("b", strconv.Itoa(i)))
		}
		x := cs["c"].write(newPod("c", "x"))
		inf := cs.start(t, tidings.Options{}, "b")
		hangs := make(chan struct{})
		told, updated := map[object.Key]bool{}, 0
		mustAdd(t, inf, tidings.KeyHandler[pod](func(key object.Key) {
			<-hangs
			told[key] = true
		}), tidings.HandlerOptions{})
		mustAdd(t, inf, tidings.HandlerFuncs[pod]{Update: func(_, _ pod) { updated++ }}, tidings.HandlerOptions{})
		synctest.Wait()
		if err := inf.SetNamespaces(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cs["c"].write(x)
		synctest.Wait()
		if err := inf.Fresh(); err != nil || updated != 1 {
			t.Errorf("another handler was told of %d updates; %v", updated, err)
		}
		close(hangs)
		synctest.Wait()
		if len(told) != 1201 || !told[object.KeyOf(x)] {
			t.Errorf("told of %d keys", len(told))
		}
	})
}
