package controller_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/internal/latewatch"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

// TestKeyGate runs workers over a simple queue with a KeyGate. Each key writes at random to objects that are its own, so
// that the server's state of these is what the cache must show in the next run of the key. Every key that is added runs
// after that, and waits no longer than the cache is late, or than MaxWait. The gate gives up only if the cache is later
// than that.
func TestKeyGate(t *testing.T) {
	var total controller.KeyGateStats
	sequences := 0
	testseed.Each(t, 40, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			st := newKeyWorld(t, seed).run()
			sequences++
			total.Waits, total.Timeouts, total.Lookups = total.Waits+st.Waits, total.Timeouts+st.Timeouts, total.Lookups+st.Lookups
		})
	})
	if t.Logf("%+v", total); sequences > 1 && (total.Waits == 0 || total.Timeouts == 0 || total.Lookups == 0) {
		t.Error("the sequences did not do everything")
	}
}

// keyWorld is a sequence of TestKeyGate.
type keyWorld struct {
	*testing.T
	number func(int) int // for any goroutine
	late   time.Duration
	server *tidingstest.Server
	client kubernetes.Interface
	cache  *tidings.SharedInformer[*corev1.ConfigMap]
	gate   *controller.KeyGate[string]
	queue  *keyQueue

	mu      sync.Mutex
	writes  map[string]time.Time // the last write of each key that was not refused
	blocked map[string]time.Time // since when it waits
	ran     map[string]time.Time
	// missed is when the gate gave up last: until the cache has caught up with that, it may show anything.
	missed map[string]time.Time
}

const keyMaxWait = 10 * time.Second

var keyNames = []string{"a", "b", "c", "d"}

func newKeyWorld(t *testing.T, seed uint64) *keyWorld {
	random := rand.New(rand.NewPCG(seed, 0))
	var mu sync.Mutex
	w := &keyWorld{
		T: t, server: tidingstest.NewServer(t, tidingstest.ServerOptions{}), queue: newKeyQueue(),
		writes: map[string]time.Time{}, blocked: map[string]time.Time{}, ran: map[string]time.Time{},
		missed: map[string]time.Time{},
		number: func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			return random.IntN(n)
		},
	}
	w.late = time.Duration(w.number(3000)) * time.Millisecond
	switch w.number(5) {
	case 0:
		w.late += 5 * time.Second // so that writes are looked up although the server has confirmed them
	case 1:
		w.late = 2 * keyMaxWait
	}
	writes := controller.NewOwnWrites(0, func(context.Context) bool { return false })
	config := w.server.Config()
	config.QPS = -1
	config.Wrap(writes.Wrap)
	w.client = kubernetes.NewForConfigOrDie(config)
	w.gate = controller.NewKeyGate(writes, controller.KeyGateOptions[string]{
		Enqueue: w.queue.add, MaxWait: keyMaxWait,
		OnMissed: func(key, _ string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.missed[key] = time.Now()
			if waited := time.Since(w.writes[key]); waited < keyMaxWait || w.late < keyMaxWait {
				w.Errorf("%s: gave up after %v, and the cache is %v late", key, waited, w.late)
			}
		},
	})
	watched := w.server.Config()
	watched.Wrap(latewatch.Wrap(w.late))
	factory := must(tidings.NewFactory(watched, tidings.Options{Logger: slog.New(slog.DiscardHandler)}))
	w.cache = must(tidings.Informer[*corev1.ConfigMap](factory, tidings.Scope{}))
	writes.Add(untyped[*corev1.ConfigMap]{w.cache})
	must(w.cache.HandleKeys("own writes", func(tidings.Key, object.DeltaType, bool) { writes.Changed() }))
	must(0, factory.Start(t.Context()))
	must(0, w.cache.WaitForSync(t.Context()))
	t.Cleanup(func() { must(0, factory.Shutdown(context.Background())) })
	return w
}

// run adds keys at random, and checks in the end that none was lost.
func (w *keyWorld) run() controller.KeyGateStats {
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	running.Go(func() { w.gate.Run(ctx) })
	for range 3 {
		running.Go(w.work)
	}
	for range 100 {
		w.queue.add(keyNames[w.number(len(keyNames))])
		time.Sleep(time.Duration(w.number(400)) * time.Millisecond)
	}
	end := time.Now()
	for _, key := range keyNames {
		w.queue.add(key)
	}
	time.Sleep(time.Minute)
	st := w.gate.Stats()
	if st.Waiting != 0 {
		w.Errorf("%d keys still wait", st.Waiting)
	}
	cancel()
	w.queue.close()
	running.Wait()
	for _, key := range keyNames {
		if w.ran[key].Before(end) {
			w.Errorf("%s was lost", key)
		}
	}
	return st
}

// work is a worker.
func (w *keyWorld) work() {
	for key, ok := w.queue.get(); ok; key, ok = w.queue.get() {
		if blocked := w.gate.Blocks(key); !blocked {
			w.check(key)
			w.act(key)
		} else {
			w.mu.Lock()
			if w.blocked[key].IsZero() {
				w.blocked[key] = time.Now()
			}
			w.mu.Unlock()
		}
		w.queue.done(key)
	}
}

// check compares the cache with the server.
func (w *keyWorld) check(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.ran[key] = now
	// What is looked up may take a second more, for each time that the answer is followed by another change, and a key that
	// need not wait any more waits for a worker.
	limit := min(w.late+3*time.Second, keyMaxWait+time.Second)
	if since := w.blocked[key]; !since.IsZero() && now.Sub(since) > limit {
		w.Errorf("%s waited for %v, and the cache is %v late", key, now.Sub(since), w.late)
	}
	delete(w.blocked, key)
	if missed, ok := w.missed[key]; ok && now.Sub(missed) < w.late+time.Second {
		return
	}
	want, got := map[types.UID]string{}, map[types.UID]string{}
	for _, o := range w.server.Objects(corev1.SchemeGroupVersion.WithResource("configmaps")) {
		if o.GetLabels()["key"] == key {
			want[o.GetUID()] = o.GetResourceVersion()
		}
	}
	for _, o := range w.cache.Lister().List() {
		if o.Labels["key"] == key {
			got[o.UID] = o.ResourceVersion
		}
	}
	if !maps.Equal(want, got) {
		w.Errorf("%s: the cache, %v late, shows %v, and the key has left %v", key, w.late, got, want)
	}
}

// act makes writes for the key, and takes a while. Answers may be lost.
func (w *keyWorld) act(key string) {
	ctx := w.gate.WithKey(w.Context(), key)
	for range w.number(4) {
		time.Sleep(time.Duration(w.number(300)) * time.Millisecond)
		w.mu.Lock()
		lost := w.number(6) == 0
		if lost {
			w.server.Inject(tidingstest.Write, tidingstest.Fault{HangUp: true, Applied: w.number(3) > 0})
		}
		if err := w.write(ctx, key); err == nil || lost {
			w.writes[key] = time.Now()
		}
		w.server.ClearFaults()
		w.mu.Unlock()
	}
}

// write makes a write to an object of the key. The model asks the server what has become of it.
func (w *keyWorld) write(ctx context.Context, key string) (err error) {
	c := w.client.CoreV1().ConfigMaps("default")
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(key, w.number(3)), Labels: map[string]string{"key": key}}}
	switch w.number(5) {
	case 0:
		made.GenerateName, made.Name = key+"-", ""
		_, err = c.Create(ctx, made, metav1.CreateOptions{})
	case 1:
		_, err = c.Create(ctx, made, metav1.CreateOptions{})
	case 2:
		patch := fmt.Sprintf(`{"data":{"n":"%d"}}`, w.number(1000))
		_, err = c.Patch(ctx, made.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	default:
		err = c.Delete(ctx, made.Name, metav1.DeleteOptions{})
	}
	return err
}

// keyQueue is a queue in which each key is once, and that gives it to one worker at a time.
type keyQueue struct {
	mu     sync.Mutex
	woken  *sync.Cond
	ready  []string
	busy   map[string]bool
	closed bool
}

func newKeyQueue() *keyQueue {
	q := &keyQueue{busy: map[string]bool{}}
	q.woken = sync.NewCond(&q.mu)
	return q
}

func (q *keyQueue) add(key string) {
	q.change(func() {
		if !slices.Contains(q.ready, key) {
			q.ready = append(q.ready, key)
		}
	})
}

func (q *keyQueue) done(key string) { q.change(func() { delete(q.busy, key) }) }
func (q *keyQueue) close()          { q.change(func() { q.closed = true }) }

func (q *keyQueue) change(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
	q.woken.Broadcast()
}

func (q *keyQueue) get() (key string, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed {
		if i := slices.IndexFunc(q.ready, func(key string) bool { return !q.busy[key] }); i >= 0 {
			key = q.ready[i]
			q.ready = slices.Delete(q.ready, i, i+1)
			q.busy[key] = true
			return key, true
		}
		q.woken.Wait()
	}
	return "", false
}
