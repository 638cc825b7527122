package memory

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
)

type settings = *corev1.ConfigMap

// informer is an Owner that is nothing but a store.
type informer struct {
	mu     sync.Mutex // held while writing
	writer *store.Writer[settings]
}

func newInformer() *informer { return &informer{writer: store.NewWriter[settings](store.Options{})} }

func (i *informer) Name() string                  { return "configmaps" }
func (i *informer) Store() *store.Store[settings] { return i.writer.Store() }
func (i *informer) Guarded(int) int               { return 0 }
func (i *informer) LookForWrites()                {}
func (i *informer) SharedBytes() int64            { return 0 }
func (i *informer) Fold(c *store.Cold[settings])  { i.write(func(t *store.Txn[settings]) { t.Fold(c) }) }
func (i *informer) Unfold(o *store.Opening[settings]) {
	i.write(func(t *store.Txn[settings]) { t.Unfold(o) })
}

func (i *informer) StartFolding(codec *codec.Objects[settings]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.writer.UseCodec(codec, reflect.TypeFor[settings]())
	i.writer.StartFolding()
}

func (i *informer) write(change func(*store.Txn[settings])) {
	i.mu.Lock()
	defer i.mu.Unlock()
	txn := i.writer.Begin()
	change(txn)
	txn.Commit()
}

// put writes a state of the n-th object.
func (i *informer) put(n, version int) {
	i.putText(n, version, strings.Repeat(fmt.Sprintf("%d says %d. ", n, version), 500))
}

func (i *informer) putText(n, version int, text string) {
	o := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprintf("s-%04d", n), ResourceVersion: fmt.Sprint(version),
			UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)),
		},
		Data: map[string]string{"text": text},
	}
	i.write(func(t *store.Txn[settings]) { t.Set(object.KeyOf(o), o) })
}

func key(n int) object.Key { return object.Key{Namespace: "shop", Name: fmt.Sprintf("s-%04d", n)} }

// TestRuleAgainstAStore reads, lists, changes and holds objects at random for hours of virtual time. A dumb store has
// the same objects. What opening and renting them has cost is compared with the best decisions: it is at most twice that
// on average, and at most three times with the worst timing, because the rule looks only four times until it folds.
func TestRuleAgainstAStore(t *testing.T) {
	if Eager {
		t.Skip("nothing is decided")
	}
	sum, runs := 0.0, 0
	testseed.Each(t, 4, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			ratio := ruleAgainstAStore(t)
			sum, runs = sum+ratio, runs+1
		})
	})
	if sum > 2*float64(runs) {
		t.Errorf("the rule costs %.2f times what it has to", sum/float64(runs))
	}
}

func ruleAgainstAStore(t *testing.T) (ratio float64) {
	const objects = 800
	random := testseed.Rand(t)
	inf, clock := newInformer(), new(Clock)
	b := New(Owner[settings](inf), nil, clock, reflect.TypeFor[settings]())
	defer b.Close()
	versions := make([]int, objects)
	for n := range objects {
		versions[n] = 1
		inf.put(n, 1)
	}
	b.Note(nil)
	synctest.Wait()
	if !b.isActive() {
		t.Fatal("there is enough to fold, and the rule does not apply")
	}
	c := b.costs(inf.Store().Snapshot().FoldStats())
	began, used := time.Now(), make([]time.Time, objects)
	// The best decisions know when an object is used next. whole is what an object has cost with them if its state has
	// never been folded, packed if it has: then it is dropped without folding it again.
	whole, packed := make([]time.Duration, objects), make([]time.Duration, objects)
	for n := range used {
		used[n], packed[n] = began, time.Hour
	}
	use := func(n int) {
		rent := c.rent(1, time.Since(used[n]))
		packed[n] = min(packed[n]+min(rent, c.open), whole[n]+c.fold+c.open)
		whole[n] += rent
		used[n] = time.Now()
	}
	var rent, change time.Duration
	held := map[int]settings{}
	look := func(n int, o settings) {
		t.Helper()
		if o == nil || o.Name != key(n).Name || o.ResourceVersion != fmt.Sprint(versions[n]) ||
			!strings.HasPrefix(o.Data["text"], fmt.Sprintf("%d says %d. ", n, versions[n])) {
			t.Fatalf("object %d at version %d is %v", n, versions[n], o)
		}
		if h := held[n]; h != nil && h != o {
			t.Fatalf("object %d has two forms of version %d", n, versions[n])
		}
		use(n)
	}
	often, pause := 1+random.IntN(objects), time.Duration(1+random.IntN(40))*time.Second
	scanEvery := []int{0, 1, 3, 10, 100}[random.IntN(5)]
	for step := range 200 {
		for range random.IntN(10) {
			n := random.IntN(often)
			o, _ := inf.Store().Snapshot().Get(key(n))
			if look(n, o); random.IntN(20) == 0 {
				held[n] = o
			}
		}
		for range random.IntN(4) {
			n := random.IntN(objects)
			versions[n]++
			use(n)
			whole[n], packed[n] = min(whole[n], packed[n]), time.Hour
			delete(held, n)
			inf.put(n, versions[n])
			b.Note(make([]object.Delta[settings], 1))
		}
		if scanEvery > 0 && step%scanEvery == 0 {
			n := 0
			for _, o := range inf.Store().Snapshot().All() {
				look(n, o)
				n++
			}
			if n != objects {
				t.Fatalf("%d objects are listed", n)
			}
		}
		if random.IntN(200) == 0 {
			clear(held)
		}
		before := inf.Store().Snapshot().FoldStats()
		runtime.GC() // otherwise opened objects that nobody holds are read for nothing
		time.Sleep(pause)
		synctest.Wait()
		st := inf.Store().Snapshot().FoldStats()
		rent += c.rent(st.Open+st.Recent, pause)
		change += time.Duration(max(0, st.Folded-before.Folded)) * c.fold
	}
	best := time.Duration(0)
	for n := range objects {
		best += min(packed[n], whole[n]+min(c.fold, c.rent(1, time.Since(used[n]))))
	}
	st := inf.Store().Snapshot().FoldStats()
	cost := rent + change + time.Duration(st.Opens)*c.open
	ratio = float64(cost) / float64(best)
	t.Logf("%v of a core in %v, %.2f times the best (%v): rent %v, folding %v, %d openings; lists every %d steps of %v; %s",
		cost, time.Since(began), ratio, best, rent, change, st.Opens, scanEvery, pause,
		b.Status(inf.Store().Snapshot()).Rule)
	if ratio > 3 {
		t.Errorf("the rule costs %.2f times what it has to", ratio)
	}
	held = nil
	time.Sleep(time.Hour)
	if st := inf.Store().Snapshot().FoldStats(); st.Folded < objects*9/10 || st.Recent > 0 {
		t.Errorf("after an hour without readers %d of %d objects are folded, %d open", st.Folded, objects, st.Recent)
	}
	if clock.isRunning() {
		t.Error("the clock runs although nothing is to be done")
	}
	return ratio
}

// TestHeldObjectsStayOpen as long as somebody holds most of them. That the store itself has them open then does not
// count: they fold once nobody else holds them.
func TestHeldObjectsStayOpen(t *testing.T) {
	if Eager {
		t.Skip("everything is folded at once")
	}
	synctest.Test(t, func(t *testing.T) {
		const objects = 2000
		inf, clock := newInformer(), new(Clock)
		b := New(Owner[settings](inf), nil, clock, reflect.TypeFor[settings]())
		defer b.Close()
		var held []settings
		for n := range objects {
			inf.put(n, 1)
			o, _ := inf.Store().Snapshot().Get(key(n))
			held = append(held, o)
		}
		b.Note(nil)
		if st := b.Status(inf.Store().Snapshot()); st.FoldAfter == 0 {
			t.Errorf("before the first pass: %+v", st)
		}
		wait := func(d time.Duration) Status {
			t.Helper()
			for range d / time.Minute {
				b.Note(make([]object.Delta[settings], 1)) // or the clock sleeps
				time.Sleep(time.Minute)
				synctest.Wait()
				collect()
			}
			return b.Status(inf.Store().Snapshot())
		}
		if st := wait(10 * time.Minute); st.Open != objects || !strings.Contains(st.Rule, "holds") {
			t.Errorf("while all are held: %+v", st)
		}
		runtime.KeepAlive(held)
		held = nil
		if st := wait(30 * time.Minute); st.Folded != objects || st.FoldAfter == 0 {
			t.Errorf("after that: %+v", st)
		}
	})
}

// collect collects garbage, and waits until what is done after a collection is done.
func collect() {
	var done atomic.Bool
	runtime.AddCleanup(new([32]byte), func(done *atomic.Bool) { done.Store(true) }, &done)
	for runtime.GC(); !done.Load(); {
		runtime.Gosched()
	}
}

// TestLittleIsLeftAlone: nothing is prepared for folding, whatever happens.
func TestLittleIsLeftAlone(t *testing.T) {
	if Eager {
		t.Skip("everything folds")
	}
	synctest.Test(t, func(t *testing.T) {
		inf, clock := newInformer(), new(Clock)
		b := New(Owner[settings](inf), nil, clock, reflect.TypeFor[settings]())
		for n := range 100 {
			inf.put(n, 1)
			b.Note(make([]object.Delta[settings], 1))
		}
		b.Relisted()
		time.Sleep(time.Hour)
		st := b.Status(inf.Store().Snapshot())
		prepared := b.isActive() || clock.isRunning() || inf.Store().CanFold()
		if prepared || st.Open != 100 || !strings.HasPrefix(st.Rule, "open") {
			t.Errorf("%+v", st)
		}
		b.Close()
	})
}

// TestFoldingThatSavesLittle: of objects with random data no more are folded than it takes to find out.
func TestFoldingThatSavesLittle(t *testing.T) {
	if Eager {
		t.Skip("everything folds")
	}
	testseed.Each(t, 4, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			inf, clock := newInformer(), new(Clock)
			b := New(Owner[settings](inf), nil, clock, reflect.TypeFor[settings]())
			defer b.Close()
			const objects = 3000
			for n := range objects {
				data := make([]byte, 3000)
				for i := range data {
					data[i] = byte(random.Uint32())
				}
				inf.putText(n, 1, string(data))
			}
			b.Note(nil)
			for range 60 {
				b.Note(make([]object.Delta[settings], 1)) // or the clock sleeps
				time.Sleep(time.Minute)
			}
			synctest.Wait()
			st := b.Status(inf.Store().Snapshot())
			said := strings.Contains(st.Rule, "saves less") && st.FoldAfter == 0
			if st.Folded < judgedFrom || st.Open < objects/2 || !said {
				t.Errorf("%+v", st)
			}
		})
	})
}

// TestScansKeepAllOpen once they come so often that opening everything for each costs more than keeping it, and no
// longer than that.
func TestScansKeepAllOpen(t *testing.T) {
	c := costs{open: assumedOpen, fold: assumedFold, saves: 4800}
	const n = 10_000
	pays := map[time.Duration]bool{time.Second: true, 10 * time.Second: true, time.Minute: false, time.Hour: false}
	for every, want := range pays {
		var s scans
		var scanned uint64
		for at := time.Duration(0); at < 3*time.Hour; at += passEvery {
			if at%max(every, passEvery) == 0 {
				scanned += n * uint64(max(1, passEvery/every))
			}
			s.pass(c, n, scanned, passEvery)
		}
		if s.open != want {
			t.Errorf("open is %t with a list each %v", s.open, every)
		}
		flips := 0
		for at := time.Duration(0); at < time.Hour; at += passEvery {
			if before := s.open; s.pass(c, n, scanned, passEvery) != before {
				flips++
			}
		}
		if s.open || flips > 1 {
			t.Errorf("open is %t after an hour without lists, %d changes", s.open, flips)
		}
	}
}

// TestBreakEven is about a minute for a pod, and within bounds whatever was measured.
func TestBreakEven(t *testing.T) {
	for _, tt := range []struct {
		costs    costs
		from, to time.Duration
	}{
		{costs{open: 18 * time.Microsecond, fold: 15 * time.Microsecond, saves: 4800}, 45 * time.Second, 60 * time.Second},
		{costs{open: time.Second, fold: time.Second, saves: 100}, mostUnread, mostUnread},
		{costs{saves: 1e6}, leastUnread, leastUnread},
		{costs{open: time.Millisecond}, mostUnread, mostUnread},
	} {
		if got := tt.costs.unread(); got < tt.from || got > tt.to {
			t.Errorf("%+v: %v, want %v to %v", tt.costs, got, tt.from, tt.to)
		}
	}
}
