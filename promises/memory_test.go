package promises_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/memory"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// churnEvents is how many changes the churn test makes.
var churnEvents = flag.Int("churn", 6_000, "changes that TestBudgetIsKept makes")

func TestNegativeBudgets(t *testing.T) {
	wrong := tidings.Options{MemoryBudget: -5}
	_, newFactory := tidings.NewFactory(&rest.Config{Host: "localhost"}, wrong)
	_, informer := tidings.Informer[pod](tidings.NewSourceFactory(wrong), tidings.Scope{})
	_, scope := tidings.Informer[pod](tidings.NewSourceFactory(tidings.Options{}), tidings.Scope{MemoryBudget: -5})
	_, newInformer := tidings.NewInformer[pod](newCluster(), tidings.InformerOptions[pod]{Options: wrong})
	for name, err := range map[string]error{"NewFactory": newFactory, "Informer": informer, "Scope": scope, "NewInformer": newInformer} {
		if err == nil || !strings.Contains(err.Error(), "MemoryBudget is -5") {
			t.Errorf("%s: %v, want an error that names the budget", name, err)
		}
	}
}

// TestBudgetTooSmall checks that exceeding a budget is reported, until it can be kept.
func TestBudgetTooSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := newCluster()
		for i := range 40 {
			c.write(newPod("a", fmt.Sprint(i)))
		}
		inf := start(t, c, tidings.InformerOptions[pod]{Options: tidings.Options{
			MemoryBudget: 10_000, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}})
		synctest.Wait()
		st := inf.Status().Memory
		if inf.Snapshot().Len() != 40 || st.Folded != 40 || st.Used <= st.Budget || st.Budget != 10_000 {
			t.Errorf("%d pods, %+v: want all of them, folded, over the budget", inf.Snapshot().Len(), st)
		}
		if !strings.Contains(st.Problem, "pods") || !strings.Contains(log.String(), "memory budget is too small") {
			t.Errorf("problem %q, log %s", st.Problem, log.String())
		}
		for i := range 38 {
			c.remove(object.Key{Namespace: "a", Name: fmt.Sprint(i)})
		}
		synctest.Wait()
		c.write(newPod("a", "one more"))
		synctest.Wait()
		if st := inf.Status().Memory; st.Problem != "" || st.Used > st.Budget {
			t.Errorf("the problem stays: %+v", st)
		}
	})
}

// TestBudgetIsSharedAndPrivate has two informers with one budget and one with its own.
func TestBudgetIsSharedAndPrivate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		for i := range 10 {
			c.write(newPod("a", fmt.Sprint(i)))
		}
		f := tidings.NewSourceFactory(tidings.Options{MemoryBudget: 1})
		tidings.SetSource(f, func(tidings.Scope, string) (source.ListerWatcher[pod], error) { return c, nil })
		for _, scope := range []tidings.Scope{{}, {Labels: "a=b"}, {Labels: "c=d", MemoryBudget: 1 << 20}} {
			if _, err := tidings.Informer[pod](f, scope); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := tidings.Informer[pod](f, tidings.Scope{Labels: "c=d", MemoryBudget: 5}); err == nil {
			t.Error("one informer has two budgets")
		}
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		st := f.Status()
		if one, other := st[0].Memory, st[1].Memory; one.Used != other.Used || one.Used < one.Bytes+other.Bytes-1 || one.Folded != 10 || other.Folded != 10 {
			t.Errorf("%+v and %+v do not share the budget", one, other)
		}
		own := st[2].Memory
		if own.Budget != 1<<20 || own.Open != 10 && !memory.Eager /* nothing stays open then */ || own.Used != own.Bytes {
			t.Errorf("%+v does not have its own budget", own)
		}
		if err := f.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestStrayWriteStaysOutOfFoldedObjects writes to an opened object, and drops it.
func TestStrayWriteStaysOutOfFoldedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newEncodedPods(t, 1, testseed.Seed(t))
		inf, err := tidings.NewInformer[pod](c, tidings.InformerOptions[pod]{Options: tidings.Options{MemoryBudget: 1, NoWatchList: true}})
		if err != nil {
			t.Fatal(err)
		}
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // until it is folded: nobody reads it then
		key := object.KeyOf(c.decode(0))
		func() {
			p, _ := inf.Get(key)
			p.Spec.NodeName = "mine"
			if again, _ := inf.Get(key); again != p {
				t.Error("there are two objects of one version")
			}
		}()
		runtime.GC()
		runtime.GC()
		if p, ok := inf.Get(key); !ok || p.Spec.NodeName == "mine" {
			t.Errorf("got %v: the write reached the folded object", p)
		}
		if err := inf.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestUnencodableObjectsStayOpen has pods that protobuf cannot restore.
func TestUnencodableObjectsStayOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		for i := range 10 {
			p := newPod("a", fmt.Sprint(i))
			if i < 3 {
				p.Labels = map[string]string{} // not nil
			}
			c.write(p)
		}
		inf := start(t, c, tidings.InformerOptions[pod]{Options: tidings.Options{MemoryBudget: 1}})
		synctest.Wait()
		if st := inf.Status().Memory; st.Open != 3 || st.Folded != 7 || st.Unfoldable != 3 || st.Reason == "" {
			t.Errorf("%+v: want three open ones, with a reason", st)
		}
		if p, ok := inf.Get(object.Key{Namespace: "a", Name: "1"}); !ok || p.Labels == nil {
			t.Errorf("got %v: an empty map became nil", p)
		}
	})
}

// encodedPods is a source that keeps its pods encoded, to distinguish the informer's memory from its own. It lists them
// as the watch has changed them: a list after a silent watch would otherwise look like a restored server.
type encodedPods struct {
	pods   [][]byte
	mu     sync.Mutex // guards the pods, sent and latest
	rand   *rand.Rand
	events int // still to be sent
	sent   int
	latest map[object.Key]string // versions
	allow  chan int              // so many changes more
}

const encodedPodsVersion = 90_000_000

func newEncodedPods(t *testing.T, n int, seed uint64) *encodedPods {
	e := &encodedPods{rand: rand.New(rand.NewPCG(seed, 2)), latest: map[object.Key]string{}, allow: make(chan int)}
	for _, p := range wiretest.Pods(n, seed) {
		data, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		e.pods = append(e.pods, data)
		e.latest[object.KeyOf(p)] = p.ResourceVersion
	}
	return e
}

func (e *encodedPods) decode(i int) pod { return decodePod(e.pods[i]) }

func decodePod(data []byte) pod {
	p := newPod("", "")
	if err := p.Unmarshal(data); err != nil {
		panic(err)
	}
	return p
}

func (e *encodedPods) List(_ context.Context, _ source.ListOptions[pod], each func(pod) error) (source.ListResult, error) {
	e.mu.Lock()
	pods, sent := slices.Clone(e.pods), e.sent
	e.mu.Unlock()
	for i := range pods {
		if err := each(decodePod(pods[i])); err != nil {
			return source.ListResult{}, err
		}
	}
	return source.ListResult{ResourceVersion: strconv.Itoa(encodedPodsVersion + sent)}, nil
}

func (e *encodedPods) Watch(ctx context.Context, opts source.WatchOptions[pod]) (source.Stream[pod], error) {
	ctx, cancel := context.WithCancel(ctx)
	return &encodedStream{pods: e, ctx: ctx, cancel: cancel}, nil
}

type encodedStream struct {
	pods   *encodedPods
	ctx    context.Context
	cancel context.CancelFunc
}

func (s *encodedStream) Close() error { s.cancel(); return nil }

func (s *encodedStream) Next(buf []source.Event[pod]) ([]source.Event[pod], error) {
	e := s.pods
	if e.events == 0 {
		select {
		case e.events = <-e.allow:
		case <-s.ctx.Done():
			return buf, io.EOF
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for range min(e.events, 1+e.rand.IntN(100)) {
		e.events--
		e.sent++
		i := e.rand.IntN(len(e.pods))
		p := e.decode(i)
		p.ResourceVersion = strconv.Itoa(encodedPodsVersion + e.sent)
		p.Annotations = map[string]string{"change": p.ResourceVersion}
		p.Status.Conditions[0].LastTransitionTime = metav1.Unix(int64(1_760_000_000+e.sent), 0)
		e.latest[object.KeyOf(p)] = p.ResourceVersion
		data, err := p.Marshal()
		if err != nil {
			return buf, err
		}
		e.pods[i] = data
		buf = append(buf, source.Event[pod]{Type: source.Modified, Object: p, ResourceVersion: p.ResourceVersion})
	}
	return buf, nil
}

// TestBudgetIsKept measures the heap while objects change, are read and listed, and checks every object in the end.
func TestBudgetIsKept(t *testing.T) {
	const pods, budget = 3000, 6_000_000 // about 36 MB open, and half of the budget folded
	e := newEncodedPods(t, pods, testseed.Seed(t))
	keys := slices.Collect(maps.Keys(e.latest))
	before := wiretest.LiveHeap()
	inf, err := tidings.NewInformer[pod](e, tidings.InformerOptions[pod]{Name: "pods", Options: tidings.Options{MemoryBudget: budget, NoWatchList: true}})
	if err != nil {
		t.Fatal(err)
	}
	byNode := inf.AddIndex("node", func(p pod) []string { return []string{p.Spec.NodeName} })
	mustAdd(t, inf, tidings.HandlerFuncs[pod]{}, tidings.HandlerOptions{})
	if err := inf.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := inf.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkHeap(t, "synced", before, budget, inf)
	if st := inf.Status().Memory; st.Open > 0 {
		t.Errorf("%d objects of a list that does not fit are open", st.Open)
	}
	for sent := 0; sent < *churnEvents; {
		round := min(5000, *churnEvents-sent)
		sent += round
		e.allow <- round
		for inf.Snapshot().ResourceVersion() != strconv.Itoa(encodedPodsVersion+sent) {
			for range 50 {
				inf.Get(keys[rand.IntN(len(keys)/10)]) // some are read more often
			}
			for p := range inf.Snapshot().ByIndex(byNode, "none") {
				t.Fatal(p)
			}
		}
		checkHeap(t, fmt.Sprintf("after %d changes", sent), before, budget, inf)
	}
	n := 0
	for key, p := range inf.Snapshot().All() {
		if n++; p.ResourceVersion != e.latest[key] {
			t.Fatalf("%s is at %s, want %s", key, p.ResourceVersion, e.latest[key])
		}
		if at, err := strconv.Atoi(p.Annotations["change"]); err == nil && strconv.Itoa(at) != p.ResourceVersion {
			t.Fatalf("%s at %s has contents of %d", key, p.ResourceVersion, at)
		}
	}
	if n != pods {
		t.Errorf("%d pods, want %d", n, pods)
	}
	checkHeap(t, "listed", before, budget, inf)
	if err := inf.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

// uncounted is memory that a budget does not count: this test's source has it in buffers, and
// decoders for their plans of types.
const uncounted = 256 << 10

// checkHeap fails the test if the informer exceeds its budget by more than a tenth.
func checkHeap(t *testing.T, when string, before, budget int64, inf *tidings.SharedInformer[pod]) {
	t.Helper()
	for inf.Status().Handlers[0].Pending > 0 {
		runtime.Gosched()
	}
	most := budget + budget/10 + uncounted
	grown := wiretest.LiveHeap() - before
	for tries := 0; grown > most && tries < 100; tries++ { // the handler may still have its last batch
		runtime.Gosched()
		grown = wiretest.LiveHeap() - before
	}
	st := inf.Status().Memory
	t.Logf("%s: %d bytes, %+v", when, grown, st)
	if grown > most {
		t.Errorf("%s: the heap has grown by %d bytes, the budget is %d", when, grown, budget)
	}
	if st.Problem != "" {
		t.Errorf("%s: %s", when, st.Problem)
	}
}

// TestFoldedReadersSeeOneVersion reads while objects fold, change and are listed. It is for the race detector.
func TestFoldedReadersSeeOneVersion(t *testing.T) {
	e := newEncodedPods(t, 300, testseed.Seed(t))
	inf, err := tidings.NewInformer[pod](e, tidings.InformerOptions[pod]{Name: "pods", Options: tidings.Options{MemoryBudget: 300_000, NoWatchList: true}})
	if err != nil {
		t.Fatal(err)
	}
	if err := inf.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := inf.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.allow <- 2000
	keys := slices.Collect(inf.Snapshot().Keys())
	done := strconv.Itoa(encodedPodsVersion + 2000)
	var readers sync.WaitGroup
	for i := range 4 {
		readers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 0))
			for more := true; more; {
				snap := inf.Snapshot()
				more = snap.ResourceVersion() != done
				for range 20 {
					key := keys[rnd.IntN(len(keys))]
					a, _ := snap.Get(key)
					b, _ := snap.Get(key)
					if a == nil || a != b || object.KeyOf(a) != key {
						t.Errorf("%s is %v and %v in one snapshot", key, a, b)
						return
					}
				}
			}
		})
	}
	readers.Go(func() {
		late := inf.AddIndex("late", func(p pod) []string { return []string{p.Namespace} })
		for range late.All(keys[0].Namespace) {
		}
		for range 3 {
			seen := 0
			if _, err := inf.HandleDeltas("late", func(tidings.Delta[pod]) { seen++ }); err != nil {
				t.Error(err)
			}
		}
	})
	readers.Wait()
	snap := inf.Snapshot()
	for key, p := range snap.All() {
		if again, ok := snap.Get(key); !ok || !reflect.DeepEqual(p, again) {
			t.Errorf("%s differs between two reads", key)
		}
	}
	if err := inf.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}
