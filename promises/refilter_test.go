package promises_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

// TestRefilter changes what a filter lets through: the handler is told of what that changes, and of
// nothing else.
func TestRefilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		for _, name := range []string{"w", "x", "y", "z"} {
			c.write(newPod("a", name))
		}
		inf, names := start(t, c, tidings.InformerOptions[pod]{}), "xy"
		var r told
		reg := mustAdd(t, inf, tidings.FilterHandler[pod](func(p pod) bool { return strings.Contains(names, p.Name) }, &r), tidings.HandlerOptions{})
		refilter := func(now string) {
			t.Helper()
			names = now
			if err := reg.Refilter(); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		synctest.Wait()
		r.want(t, "add a/x@2 initial", "add a/y@3 initial")
		refilter("xy")
		r.want(t)
		refilter("yz")
		r.want(t, "delete a/x@2", "add a/z@4")
		c.write(newPod("a", "y"))
		synctest.Wait()
		r.want(t, "update a/y 3→5")
		names = "wy" // not announced, so it holds for what changes
		c.write(newPod("a", "z"))
		synctest.Wait()
		r.want(t, "delete a/z@6")
		c.remove(object.Key{Namespace: "a", Name: "x"})
		synctest.Wait()
		refilter("w")
		r.want(t, "add a/w@1", "delete a/y@5")
		c.remove(object.Key{Namespace: "a", Name: "w"})
		names = ""
		synctest.Wait()
		r.want(t, "delete a/w@8") // the handler has it, whatever the filter says now
		refilter("")
		r.want(t)
	})
}

// TestRefilterBeforeTheEnd: there is nothing to decide about before the start, and no handler after the end.
func TestRefilterBeforeTheEnd(t *testing.T) {
	inf, err := tidings.NewInformer(newCluster(), tidings.InformerOptions[pod]{Name: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	all := func(pod) bool { return true }
	filtered := mustAdd(t, inf, tidings.FilterHandler[pod](all, &told{}), tidings.HandlerOptions{Name: "filtered"})
	if err := filtered.Refilter(); err != nil {
		t.Errorf("before the start: %v", err)
	}
	for name, h := range map[string]tidings.Handler[pod]{"plain": &told{}, "wrapping": wrapping{tidings.FilterHandler[pod](all, &told{})}} {
		want := fmt.Sprintf("pods: refilter handler %q: the handler has no filter", name)
		if err := mustAdd(t, inf, h, tidings.HandlerOptions{Name: name}).Refilter(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := inf.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := filtered.Refilter(); !errors.Is(err, tidings.ErrStopped) || !strings.Contains(err.Error(), `"filtered"`) {
		t.Errorf("after the stop: %v", err)
	}
}

// TestFilterIsSharedByInformers: what one registration has passed on does not matter to another one.
func TestFilterIsSharedByInformers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r told
		var none atomic.Bool
		h := tidings.FilterHandler[pod](func(pod) bool { return !none.Load() }, &r)
		var regs []*tidings.Registration
		var clusters []*cluster
		for range 2 {
			c := newCluster()
			inf := start(t, c, tidings.InformerOptions[pod]{})
			clusters, regs = append(clusters, c), append(regs, mustAdd(t, inf, h, tidings.HandlerOptions{}), mustAdd(t, inf, h, tidings.HandlerOptions{}))
		}
		synctest.Wait()
		clusters[0].write(newPod("a", "x"))
		synctest.Wait()
		r.want(t, "add a/x@1", "add a/x@1")
		clusters[1].write(newPod("a", "x"))
		synctest.Wait()
		r.want(t, "add a/x@1", "add a/x@1")
		none.Store(true)
		for _, reg := range regs {
			if err := reg.Refilter(); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			r.want(t, "delete a/x@1")
		}
	})
}

// TestRefilterAtRandom changes objects and filters at random. Handlers are slow, come late and go,
// and some call Refilter themselves; lists are repeated, and namespaces come and go. Each handler
// gets notifications that fit together, and whenever all is quiet it has the objects that match.
func TestRefilterAtRandom(t *testing.T) {
	testseed.Each(t, 8, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			w := &refiltering{t: t, foldedServer: &foldedServer{Rand: r, server: tidingstest.NewServer(t, tidingstest.ServerOptions{})}}
			for range 60 {
				w.write()
			}
			p := startProgram(t, w.server, tidings.Options{
				MemoryBudget: []int64{0, 1, 60_000, 300_000}[r.IntN(4)], NoWatchList: r.IntN(2) == 0, Seed: seed | 1,
			}, tidings.Scope{Namespaces: budgetScopes[r.IntN(len(budgetScopes))]})
			w.inf = p.inf
			w.add()
			for range 12 {
				for range 8 {
					w.act()
				}
				w.settle()
			}
			if err := p.inf.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, h := range w.handlers {
				if err := h.reg.Load().Refilter(); !errors.Is(err, tidings.ErrStopped) {
					t.Errorf("after the stop: %v", err)
				}
			}
		})
	})
}

// refiltering is a server, an informer and handlers whose filters change.
type refiltering struct {
	t *testing.T
	*foldedServer
	inf      *tidings.SharedInformer[pod]
	handlers []*refiltered
}

// refiltered is a handler with one filter or two. Each filter lets the pods of its mask through.
type refiltered struct {
	mu sync.Mutex // guards replayed, which the test may read during a slow resync
	replayed
	pause   time.Duration    // before each call
	masks   [2]atomic.Uint32 // one bit for each remainder of the number of a pod's write
	reg     atomic.Pointer[tidings.Registration]
	two     bool // both filters
	resyncs bool
	calls   int
	own     int // how often it is yet to change its filter itself
}

// matches reports whether a pod passes a mask.
func (h *refiltered) matches(i int, p pod) bool {
	n, err := strconv.Atoi(p.Labels["write"])
	if err != nil {
		h.t.Error(err)
	}
	return h.masks[i].Load()>>(n%5)&1 != 0
}

func (h *refiltered) OnAdd(p pod, initial bool) {
	h.tell(func() { h.replayed.OnAdd(p, initial) })
	h.called()
}

func (h *refiltered) OnUpdate(old, new pod) {
	h.tell(func() { h.replayed.OnUpdate(old, new) })
	if old == new && !h.resyncs {
		h.t.Errorf("update of %s, which has not changed", object.KeyOf(new))
	}
	h.called()
}

func (h *refiltered) OnDelete(gone tidings.Tombstone[pod]) {
	h.tell(func() { h.replayed.OnDelete(gone) })
	h.called()
}

// tell notifies replayed after the pause.
func (h *refiltered) tell(call func()) {
	time.Sleep(h.pause)
	h.mu.Lock()
	defer h.mu.Unlock()
	call()
}

// called changes the filter now and then.
func (h *refiltered) called() {
	reg := h.reg.Load()
	if h.calls++; h.calls%23 > 0 || h.own == 0 || reg == nil {
		return
	}
	h.own--
	h.masks[0].Store(uint32(h.calls))
	if err := reg.Refilter(); err != nil && !errors.Is(err, tidings.ErrStopped) {
		h.t.Error(err)
	}
}

// add adds a handler, at most four.
func (w *refiltering) add() {
	if len(w.handlers) == 4 {
		return
	}
	h := &refiltered{two: w.IntN(2) == 0, resyncs: w.IntN(3) == 0, own: w.IntN(8)}
	h.replayed = replayed{t: w.t, state: map[object.Key]pod{}}
	h.pause = []time.Duration{0, time.Millisecond, 100 * time.Millisecond}[w.IntN(3)]
	h.masks[0].Store(w.Uint32())
	h.masks[1].Store(31)
	var filter tidings.Handler[pod] = h
	if h.two {
		filter = tidings.FilterHandler(func(p pod) bool { return h.matches(1, p) }, filter)
	}
	filter = tidings.FilterHandler(func(p pod) bool { return h.matches(0, p) }, filter)
	opts := tidings.HandlerOptions{Policy: tidings.Policy(w.IntN(3)), Buffer: 10}
	if h.resyncs {
		opts.Resync = time.Duration(1+w.IntN(60)) * time.Second
	}
	h.reg.Store(mustAdd(w.t, w.inf, filter, opts))
	w.handlers = append(w.handlers, h)
}

// remove removes a handler.
func (w *refiltering) remove() {
	i := w.IntN(len(w.handlers))
	reg := w.handlers[i].reg.Load()
	if err := reg.Remove(w.t.Context()); err != nil {
		w.t.Error(err)
	}
	if err := reg.Refilter(); !errors.Is(err, tidings.ErrStopped) {
		w.t.Errorf("after the removal: %v", err)
	}
	w.handlers = slices.Delete(w.handlers, i, i+1)
}

// act does something at random.
func (w *refiltering) act() {
	switch w.IntN(12) {
	case 0, 1:
		for range w.IntN(60) {
			w.write()
		}
	case 2, 3, 4, 5:
		for range 1 + w.IntN(3) {
			w.refilter()
		}
	case 6:
		w.round(w.inf)
	case 7:
		w.add()
	case 8:
		if len(w.handlers) > 1 {
			w.remove()
		}
	case 9:
		if err := w.inf.SetNamespaces(w.t.Context(), budgetScopes[w.IntN(len(budgetScopes))]...); err != nil {
			w.t.Error(err)
		}
	default:
		time.Sleep(time.Duration(w.IntN(2000)) * time.Millisecond)
	}
	if w.IntN(2) == 0 {
		time.Sleep(time.Duration(w.IntN(50)) * time.Millisecond)
	}
}

// refilter changes a filter, after which some changes may arrive before that is announced.
func (w *refiltering) refilter() {
	h := w.handlers[w.IntN(len(w.handlers))]
	h.masks[w.IntN(4)/3].Store(w.Uint32())
	if w.IntN(3) == 0 {
		w.write()
		time.Sleep(time.Duration(w.IntN(20)) * time.Millisecond)
	}
	if err := h.reg.Load().Refilter(); err != nil {
		w.t.Error(err)
	}
}

// settle waits until all is quiet, and compares what the handlers have with what matches.
func (w *refiltering) settle() {
	w.server.Heal()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Hour)
	defer cancel()
	if err := w.inf.WaitForSync(ctx); err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(20 * time.Minute)
	synctest.Wait()
	all := slices.Contains(w.inf.Namespaces(), tidings.All)
	for i, h := range w.handlers {
		want, got := map[object.Key]string{}, map[object.Key]string{}
		for _, o := range w.server.Objects(podResource) {
			p := o.(pod)
			passes := h.matches(0, p) && (!h.two || h.matches(1, p))
			if passes && (all || slices.Contains(w.inf.Namespaces(), p.Namespace)) {
				want[object.KeyOf(p)] = p.ResourceVersion
			}
		}
		h.mu.Lock()
		for key, p := range h.state {
			got[key] = p.ResourceVersion
		}
		h.mu.Unlock()
		if !maps.Equal(got, want) {
			w.t.Errorf("handler %d: %s", i, differ(want, got))
		}
	}
}
