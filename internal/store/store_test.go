package store

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/internal/tree"
	"github.com/tidings/tidings/object"
)

// filled returns a writer with n things in order, name000000 and on, and an index by label "app" of 10 values.
func filled(n int) (*Writer[*thing], *Index[*thing]) {
	w := NewWriter[*thing](Options{})
	ix := w.AddIndex("app", byLabel("app"))
	txn := w.Begin()
	txn.Load(things(n))
	commit(txn, "1")
	return w, ix
}

func things(n int) []*thing {
	all := make([]*thing, n)
	for i := range all {
		all[i] = newThing("ns", fmt.Sprintf("name%06d", i), map[string]string{"app": fmt.Sprint("app", i%10)})
	}
	return all
}

// leaves returns the number of leaves below n.
func leaves(n *tree.Node) int {
	count := 0
	for range n.Runs(tree.Span{}) {
		count++
	}
	return count
}

func TestLoadAndAppendFillLeaves(t *testing.T) {
	const full = 100
	loaded, _ := filled(full * tree.MaxFill)
	appended := NewWriter[*thing](Options{})
	txn := appended.Begin()
	for _, o := range things(full * tree.MaxFill) {
		txn.Set(object.KeyOf(o), o)
	}
	for name, s := range map[string]*Snapshot[*thing]{"Load": loaded.Store().Snapshot(), "Set": txn.Commit()} {
		check(t, s)
		if got := leaves(s.keys); got != full {
			t.Errorf("%s made %d leaves, want %d full ones", name, got, full)
		}
	}
}

func TestLoadIsSet(t *testing.T) {
	unsorted := things(100)
	rand.Shuffle(len(unsorted), func(i, j int) { unsorted[i], unsorted[j] = unsorted[j], unsorted[i] })
	twice := append(things(50), things(1)...)
	loads := map[string][]*thing{"nothing": nil, "sorted": things(500), "unsorted": unsorted, "twice": twice}
	for name, load := range loads {
		for _, present := range []int{0, 70} {
			w, _ := filled(present)
			m := model{}
			for _, o := range objects(w.Store().Snapshot().All()) {
				m[object.KeyOf(o)] = o
			}
			for _, o := range load {
				m[object.KeyOf(o)] = o
			}
			txn := w.Begin()
			txn.Load(load)
			s := txn.Commit()
			check(t, s)
			if !slices.Equal(objects(s.All()), m.sorted()) {
				t.Errorf("%s on %d objects: the store differs from the model", name, present)
			}
		}
	}
}

// TestNamesThatArePrefixes has names and values that are prefixes of each other, or empty.
func TestNamesThatArePrefixes(t *testing.T) {
	w := NewWriter[*thing](Options{})
	ix := w.AddIndex("app", byLabel("app"))
	names := []string{"", "a", "a\x00", "a-b", "ab", "b"}
	txn := w.Begin()
	m := model{}
	for _, space := range names {
		for _, name := range names {
			for _, app := range names {
				o := newThing(space, name+app, map[string]string{"app": app})
				m[object.KeyOf(o)] = o
				txn.Set(object.KeyOf(o), o)
			}
		}
	}
	s := txn.Commit()
	check(t, s)
	for _, v := range names {
		want := m.where(func(o *thing) bool { return v == "" || o.Namespace == v })
		if !slices.Equal(objects(s.Namespace(v)), want) {
			t.Errorf("Namespace(%q) differs from the model", v)
		}
		want = m.where(func(o *thing) bool { return o.Labels["app"] == v })
		if !slices.Equal(slices.Collect(ix.All(v)), want) {
			t.Errorf("All(%q) differs from the model", v)
		}
	}
}

func TestIndexFunctionPanics(t *testing.T) {
	var reports []string
	w := NewWriter[*thing](Options{OnIndexPanic: func(index string, k object.Key, reason any) {
		reports = append(reports, fmt.Sprint(index, " ", k, " ", reason))
	}})
	bad := func(o *thing) []string {
		if o.Name == "bad" {
			panic("boom")
		}
		return []string{"v"}
	}
	first := w.AddIndex("first", bad)
	txn := w.Begin()
	for _, name := range []string{"bad", "good"} {
		txn.Set(object.Key{Name: name}, newThing("", name, nil))
	}
	txn.Commit()
	second := w.AddIndex("second", bad)
	txn = w.Begin()
	txn.Delete(object.Key{Name: "bad"})
	txn.Set(object.Key{Name: "bad"}, newThing("", "bad", nil))
	s := txn.Commit()
	check(t, s)
	for _, ix := range []*Index[*thing]{first, second} {
		if got := s.Count(ix, "v"); got != 1 {
			t.Errorf("index %s has %d objects, want 1", ix.Name(), got)
		}
	}
	want := []string{"first bad boom", "second bad boom", "first bad boom", "second bad boom"}
	if s.Len() != 2 || !slices.Equal(reports, want) {
		t.Errorf("%d objects, reports %q, want %q", s.Len(), reports, want)
	}
}

func TestManyValuesMove(t *testing.T) {
	w := NewWriter[*thing](Options{})
	ix := w.AddIndex("all", byAllLabels)
	k := object.Key{Name: "x"}
	for round := range 5 {
		labels := map[string]string{}
		for i := range 100 {
			labels[fmt.Sprint(i)] = fmt.Sprint(i + 30*round)
		}
		txn := w.Begin()
		txn.Set(k, newThing("", "x", labels))
		s := txn.Commit()
		check(t, s)
		if n := len(slices.Collect(s.Values(ix))); n != 100 {
			t.Fatalf("%d values, want 100", n)
		}
	}
}

func TestFinishedTransactionChangesNothing(t *testing.T) {
	w, _ := filled(100)
	txn := w.Begin()
	txn.Delete(object.Key{Namespace: "ns", Name: "name000001"})
	s := commit(txn, "2")
	for name, call := range map[string]func(){
		"Set":    func() { txn.Set(object.Key{Name: "x"}, newThing("", "x", nil)) },
		"Delete": func() { txn.Delete(object.Key{Namespace: "ns", Name: "name000002"}) },
		"Load":   func() { txn.Load(things(1)) },
		"Commit": func() { txn.Commit() },
	} {
		if !panics(call) {
			t.Errorf("%s after Commit does not panic", name)
		}
	}
	txn.Abort()
	if txn.Len() != 0 || s.Len() != 99 || w.Store().Snapshot() != s {
		t.Error("a finished transaction has an effect")
	}
	check(t, s)
}

func TestOneTransactionAtATime(t *testing.T) {
	w, ix := filled(1)
	txn := w.Begin()
	for name, call := range map[string]func(){
		"Begin":       func() { w.Begin() },
		"AddIndex":    func() { w.AddIndex("x", byAllLabels) },
		"RemoveIndex": func() { w.RemoveIndex(ix) },
	} {
		if !panics(call) {
			t.Errorf("%s inside a transaction does not panic", name)
		}
	}
	txn.Abort()
	w.Begin().Abort()
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// TestReadersSeeWholeTransactions moves objects between two values in every transaction; each snapshot must
// have them all, in one place.
func TestReadersSeeWholeTransactions(t *testing.T) {
	const n = 300
	w, ix := filled(0)
	put := func(round int) {
		txn := w.Begin()
		for i := range n {
			k := object.Key{Namespace: "ns", Name: fmt.Sprint(i)}
			labels := map[string]string{"app": fmt.Sprint(round % 2), "round": fmt.Sprint(round)}
			txn.Set(k, newThing(k.Namespace, k.Name, labels))
		}
		commit(txn, fmt.Sprint(round+1))
	}
	put(0)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					checkWhole(t, w.Store().Snapshot(), ix, n)
				}
			}
		})
	}
	for round := range 25 {
		put(round + 1)
	}
	close(stop)
	readers.Wait()
}

func checkWhole(t *testing.T, s *Snapshot[*thing], ix *Index[*thing], n int) {
	rounds := map[string]int{}
	for _, o := range s.All() {
		rounds[o.Labels["round"]]++
	}
	counts := []int{s.Count(ix, "0"), s.Count(ix, "1")}
	if len(rounds) != 1 || max(counts[0], counts[1]) != n || min(counts[0], counts[1]) != 0 {
		t.Errorf("one snapshot has rounds %v and index counts %v", rounds, counts)
	}
}

// TestForgetsWhatIsGone checks that a store keeps no replaced or deleted object alive.
func TestForgetsWhatIsGone(t *testing.T) {
	const n = 1000
	w, _ := filled(0)
	var mu sync.Mutex
	freed := 0
	set := func(txn *Txn[*thing], i int) {
		// Separately allocated names, as from a decoder, show whether keys are kept.
		o := newThing("ns", strings.Clone(fmt.Sprintf("name%06d", i)), map[string]string{"app": "x"})
		runtime.AddCleanup(o, func(int) { mu.Lock(); freed++; mu.Unlock() }, 0)
		txn.Set(object.KeyOf(o), o)
	}
	for range 2 {
		txn := w.Begin()
		for i := range n {
			set(txn, i)
		}
		txn.Commit()
	}
	txn := w.Begin()
	for i := range n / 2 {
		txn.Delete(object.Key{Namespace: "ns", Name: fmt.Sprintf("name%06d", i*2)})
	}
	txn.Commit()
	all := func() bool { mu.Lock(); defer mu.Unlock(); return freed == n+n/2 }
	for deadline := time.Now().Add(10 * time.Second); !all() && time.Now().Before(deadline); {
		runtime.GC()
	}
	if !all() {
		t.Errorf("%d objects were freed, want %d", freed, n+n/2)
	}
	check(t, w.Store().Snapshot())
}

func TestReadsDoNotAllocate(t *testing.T) {
	w, ix := filled(5000)
	s := w.Store().Snapshot()
	k := object.Key{Namespace: "ns", Name: "name004711"}
	n := 0
	for name, c := range map[string]struct {
		read func()
		most float64
	}{
		"Get": {func() { s.Get(k) }, 0},
		"All": {func() {
			for range s.All() {
				n++
			}
		}, 2},
		"Namespace": {func() {
			for range s.Namespace("ns") {
				n++
			}
		}, 2},
		"Index": {func() {
			for range ix.All("app7") {
				n++
			}
		}, 2},
		"Count": {func() { s.Count(ix, "app7") }, 0},
		"absent": {func() {
			for range s.ByIndex(ix, "none") {
				n++
			}
		}, 2},
	} {
		if got := testing.AllocsPerRun(20, c.read); got > c.most {
			t.Errorf("%s allocates %v times, want at most %v", name, got, c.most)
		}
	}
}

func TestBreakingOff(t *testing.T) {
	w, ix := filled(3 * tree.MaxFill)
	s := w.Store().Snapshot()
	other := w.AddIndex("later", byLabel("app"))
	count := func(seq func(func(*thing) bool)) (n int) {
		seq(func(*thing) bool { n++; return n < 3 })
		return n
	}
	values := 0
	for range s.Values(other) {
		values++
		break
	}
	for range s.Keys() {
		values++
		break
	}
	both := []Match[*thing]{{ix, "app3"}, {other, "app3"}}
	got := []int{
		values,
		count(s.ByIndex(ix, "app3")),
		count(s.ByIndex(other, "app3")),
		count(s.Intersect(both...)),
		count(s.Intersect(both[1])),
	}
	if want := []int{2, 3, 3, 3, 3}; !slices.Equal(got, want) {
		t.Errorf("got %v items, want %v", got, want)
	}
}

// TestInterfaceType stores objects of several Go types in one store.
func TestInterfaceType(t *testing.T) {
	w := NewWriter[object.Object](Options{})
	ix := w.AddIndex("type", func(o object.Object) []string { return []string{fmt.Sprintf("%T", o)} })
	txn := w.Begin()
	whole := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "b"}}}
	for _, o := range []object.Object{newThing("ns", "a", nil), whole} {
		txn.Set(object.KeyOf(o), o)
	}
	s := txn.Commit()
	if got := slices.Collect(s.Values(ix)); len(got) != 2 || s.Len() != 2 {
		t.Errorf("%d objects under %q", s.Len(), got)
	}
	if _, ok := s.Get(object.Key{Name: "b"}); !ok {
		t.Error("an object is missing")
	}
}

// TestRightEdge shrinks and grows a tree at its right edge, where nodes may be almost empty.
func TestRightEdge(t *testing.T) {
	all := things(tree.MaxFill*tree.MaxFill + 3)
	w := NewWriter[*thing](Options{})
	const full = tree.MaxFill * tree.MaxFill
	for _, n := range []int{len(all), len(all) - 2, len(all), full, full + 1, 1, 0} {
		txn := w.Begin()
		for i := txn.Len(); i < n; i++ {
			txn.Set(object.KeyOf(all[i]), all[i])
		}
		for i := txn.Len(); i > n; i-- {
			txn.Delete(object.KeyOf(all[i-1]))
		}
		s := txn.Commit()
		check(t, s)
		if !slices.Equal(objects(s.All()), all[:n]) {
			t.Errorf("%d objects differ from the model", n)
		}
	}
}

func TestIntersectBeyondTheEnd(t *testing.T) {
	w, ix := filled(100)
	s := w.Store().Snapshot()
	for _, other := range []string{"app0", "app9", "absent", "zzz"} {
		matches := []Match[*thing]{
			{ix, "app3"},
			{ix, other},
			{w.AddIndex("empty", func(*thing) []string { return nil }), "x"},
		}
		if got := slices.Collect(s.Intersect(matches[:2]...)); len(got) != 0 {
			t.Errorf("app3 and %s have %d objects in common", other, len(got))
		}
		if got := slices.Collect(w.Store().Snapshot().Intersect(matches...)); len(got) != 0 {
			t.Errorf("%d objects match an empty index", len(got))
		}
	}
}

func TestRemoveIndexTwice(t *testing.T) {
	w, ix := filled(10)
	w.RemoveIndex(ix)
	s := w.Store().Snapshot()
	w.RemoveIndex(ix)
	if w.Store().Snapshot() != s || len(s.indexes) != 0 {
		t.Error("removing an index twice publishes twice")
	}
}
