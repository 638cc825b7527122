package engine

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tidings/tidings/internal/guard"
	"github.com/tidings/tidings/internal/memory"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// sharing is a source that remembers what objects have in common.
type sharing struct{ *answering }

func (sharing) SharedBytes() int64 { return 1 << 20 }

// TestSharedBytesCount: the tables of shared parts in the source and the codec count as the informer's memory.
func TestSharedBytesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := namedSettings(1)
		o.ResourceVersion = "5"
		bytes := func(src source.ListerWatcher[settings]) (int64, *Informer[settings]) {
			inf := New(Config[settings]{Name: "configmaps", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
				Memory: newBudget(1 << 30), NewSource: func(string) (source.ListerWatcher[settings], error) { return src, nil }})
			if err := inf.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			st := inf.Status().Memory
			inf.Halt(nil)
			if st.Used != st.Bytes || st.Open != 1 {
				t.Errorf("%+v, want one open object", st)
			}
			<-inf.Done()
			if end := inf.Status().Memory; end.Used != 0 || end.Bytes != 0 {
				t.Errorf("an informer that has ended takes %d bytes of the budget", end.Used)
			}
			return st.Bytes, inf
		}
		alone, _ := bytes(&answering{items: []settings{o}})
		more, inf := bytes(sharing{&answering{items: []settings{o}}})
		if more-alone != 1<<20 {
			t.Errorf("%d bytes with what the source remembers and %d without", more, alone)
		}
		for _, o := range manySettings(100) {
			data, err := inf.memory.Codec().Append(nil, o)
			if err == nil {
				_, err = inf.memory.Codec().Decode(data, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if got, codec := inf.memory.SharedBytes(), inf.memory.Codec().SharedBytes(); codec == 0 || got != 1<<20+codec {
			t.Errorf("%d shared bytes, want those of the source and the codec's %d", got, codec)
		}
	})
}

// untyped treats config maps as objects of an unknown type.
type untyped struct{ *answering }

func (u untyped) List(ctx context.Context, _ source.ListOptions[object.Object], each func(object.Object) error) (source.ListResult, error) {
	return u.answering.List(ctx, source.ListOptions[settings]{}, func(o settings) error { return each(o) })
}

func (u untyped) Watch(ctx context.Context, opts source.WatchOptions[object.Object]) (source.Stream[object.Object], error) {
	for i := range u.items { // a source that asks for the previous objects
		if held, ok := opts.Previous(object.KeyOf(u.items[i])); !ok || held != object.Object(u.items[i]) {
			return nil, errOtherVersion
		}
	}
	return untypedQuiet{quiet{ctx}}, nil
}

type untypedQuiet struct{ quiet }

func (q untypedQuiet) Next(buf []source.Event[object.Object]) ([]source.Event[object.Object], error) {
	_, err := q.quiet.Next(nil)
	return buf, err
}

// TestBudgetOfATypeThatCannotBeFolded: the objects stay open, are counted, and the status says that
// the budget is too small.
func TestBudgetOfATypeThatCannotBeFolded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &answering{}
		for i := range 10 {
			o := namedSettings(i)
			o.ResourceVersion = "5"
			src.items = append(src.items, o)
		}
		inf := New(Config[object.Object]{Name: "anything", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
			Memory: newBudget(1), NewSource: func(string) (source.ListerWatcher[object.Object], error) { return untyped{src}, nil }})
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		st := inf.Status()
		if st.Memory.Open != 10 || st.Memory.Folded != 0 || st.Memory.Problem == "" || st.Memory.Used <= 10*memory.PerObject {
			t.Errorf("%+v, want ten open objects over the budget", st.Memory)
		}
		if st.Memory.Unfoldable != 10 || !strings.Contains(st.Memory.Reason, "object.Object") {
			t.Errorf("%d are unfoldable because %q", st.Memory.Unfoldable, st.Memory.Reason)
		}
		if r := st.Parts[0].Reflector; r.Problem != nil || r.Panics != 0 {
			t.Errorf("problem %v", r.Problem)
		}
		inf.Halt(nil)
		<-inf.Done()
	})
}

// TestBudgetOfATypeThatIsTold: if the informer's own type says nothing, objects can still be folded by Config.Type.
func TestBudgetOfATypeThatIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &answering{}
		for i := range 10 {
			o := namedSettings(i)
			o.ResourceVersion = "5"
			src.items = append(src.items, o)
		}
		inf := New(Config[object.Object]{Name: "anything", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
			Type: reflect.TypeFor[settings](), Memory: newBudget(1),
			NewSource: func(string) (source.ListerWatcher[object.Object], error) { return untyped{src}, nil }})
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if st := inf.Status().Memory; st.Folded != 10 || st.Open != 0 {
			t.Errorf("%+v, want ten folded objects", st)
		}
		inf.Halt(nil)
		<-inf.Done()
	})
}

// TestWhatCounts: objects, their places in the store, and the entries of indexes.
func TestWhatCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := withBudget(1<<30, &answering{items: manySettings(100)})
		inf.cfg.NoMutationGuard = true
		startIt(t, inf)
		before := inf.Status().Memory
		if got, want := before.Bytes-before.OpenBytes, inf.memory.SharedBytes()+100*memory.PerObject; got != want || before.OpenBytes < 100*2000 || inf.memory.OpenBytes() != before.OpenBytes {
			t.Errorf("%d bytes beside %d of open objects, want %d; %d can be folded", got, before.OpenBytes, want, inf.memory.OpenBytes())
		}
		inf.AddIndex("both", func(o settings) []string { return []string{"a", o.Name} })
		if grown := inf.Status().Memory.Bytes - before.Bytes; grown != 200*memory.PerEntry {
			t.Errorf("200 entries of an index count as %d bytes", grown)
		}
	})
}

// TestChangedKeysAreKept: those that need not be folded now are remembered for the next time.
func TestChangedKeysAreKept(t *testing.T) {
	inf := withBudget(1<<40, &answering{})
	var notes []object.Delta[settings]
	txn := inf.writer.Begin()
	for i := range 3 * memory.FoldBatch {
		txn.Set(keyOf(i), namedSettings(i))
		notes = append(notes, object.Delta[settings]{Type: object.Added, Key: keyOf(i)})
	}
	txn.Commit()
	inf.memory.Note(notes)
	inf.memory.Fold(true, func() bool { return inf.store.Snapshot().FoldStats().Folded > 0 })
	if n := len(changedOf(inf)); n != 2*memory.FoldBatch {
		t.Errorf("%d keys are left after the first %d", n, memory.FoldBatch)
	}
	inf.Halt(nil)
	<-inf.done
}

// TestChangedKeysAreBounded: of many changes the oldest are remembered, and none of deleted objects.
func TestChangedKeysAreBounded(t *testing.T) {
	inf := withBudget(1<<40, &answering{})
	var notes []object.Delta[settings]
	txn := inf.writer.Begin()
	for i := range 2 * memory.MaxChanged {
		kind := object.Updated
		if i%4 == 0 {
			kind = object.Deleted
		} else {
			txn.Set(keyOf(i), namedSettings(i))
		}
		notes = append(notes, object.Delta[settings]{Type: kind, Key: keyOf(i)})
	}
	txn.Commit()
	inf.memory.Note(notes)
	if n := len(changedOf(inf)); n != memory.MaxChanged || changedOf(inf)[0] != keyOf(1) || changedOf(inf)[3] != keyOf(5) {
		t.Errorf("%d keys are remembered", n)
	}
	for left := memory.MaxChanged; left > 0; {
		keys := inf.memory.TakeChanged()
		if len(keys) != min(left, memory.FoldBatch) {
			t.Fatalf("%d keys at once, %d were left", len(keys), left)
		}
		left -= len(keys)
	}
	if len(inf.memory.TakeChanged()) != 0 || changedOf(inf) != nil {
		t.Error("keys are taken twice, or their room is kept")
	}
	inf.Halt(nil)
	<-inf.done
}

// TestNeighborsArePackedTogetherAgain: once a share of the objects has come one by one, a few
// thousand at a time, and not before.
func TestNeighborsArePackedTogetherAgain(t *testing.T) {
	const n = memory.RepackBatch + 1000
	inf := withBudget(1<<40, &answering{})
	b := inf.memory
	for i := range n {
		o := namedSettings(i)
		o.Data = map[string]string{"text": fmt.Sprint(i) + strings.Repeat("all work and no play ", 10)}
		txn := inf.writer.Begin()
		txn.Set(object.KeyOf(o), o)
		txn.Commit()
		b.Apply(inf.store.PackKeys([]object.Key{object.KeyOf(o)}, true))
	}
	last := packedBytes(inf)
	for i, step := range []struct {
		changes             int
		enough, more, saves bool
	}{
		{changes: n/memory.RepackShare - 1},
		{changes: 1, enough: true},
		{changes: n / memory.RepackShare, more: true, saves: true},
		{saves: true},
		{changes: n/memory.RepackShare - 1},
	} {
		b.Note(make([]object.Delta[settings], step.changes))
		more := b.Repack(func() bool { return step.enough })
		now := packedBytes(inf)
		if more != step.more || (now < last) != step.saves {
			t.Errorf("step %d: more %t, from %d bytes to %d; want %t, and saves %t", i, more, last, now, step.more, step.saves)
		}
		last = now
	}
	if st := inf.store.Snapshot().FoldStats(); st.Folded != n {
		t.Errorf("%d objects are folded", st.Folded)
	}
	inf.Halt(nil)
	<-inf.done
}

// changedOf returns the keys of changed objects that are open.
func changedOf(inf *Informer[settings]) (keys []object.Key) {
	inf.memory.Inspect(func(c *memory.Counts) { keys = c.Changed })
	return keys
}

// packedBytes returns the memory of the packed objects alone.
func packedBytes(inf *Informer[settings]) (bytes int) {
	for held := range inf.store.Snapshot().AllHeld("") {
		if packed, ok := held.Packed(); ok {
			bytes += packed.Size()
		}
	}
	return bytes
}

// TestWhatIsUsedIsTheSum: everything that an informer keeps for its objects is part of the memory that it reports.
func TestWhatIsUsedIsTheSum(t *testing.T) {
	inf := withBudget(1<<40, &answering{})
	b := inf.memory
	txn := inf.writer.Begin()
	for i, o := range manySettings(200) {
		txn.Set(keyOf(i), o)
	}
	txn.Commit()
	used := b.Measure()
	each := b.MeanSize()
	grown := func(what string, want float64) {
		t.Helper()
		before := used
		if used = b.Measure(); math.Abs(float64(used-before)-want) > 1 || b.Budget().Used() != used {
			t.Errorf("%s: %d bytes more, %d in all by the budget and %d by the account, want %.0f more", what, used-before, b.Budget().Used(), used, want)
		}
	}
	grown("nothing", 0)
	b.Gathered.Add(12_345)
	grown("what lists have read", 12_345)
	b.Inspect(func(c *memory.Counts) { c.Shared += 777 })
	grown("what is shared", 777)
	for i := range 3 {
		inf.guard.sampler.Keep(namedSettings(i), guard.EveryChange)
	}
	grown("what the guard keeps", 3*each)
	b.Inspect(func(c *memory.Counts) { c.Changed = append(c.Changed, keyOf(1), keyOf(2)) })
	grown("keys of changes", 2*memory.PerChanged)
	inf.Fold(inf.store.PackKeys([]object.Key{keyOf(0), keyOf(1)}, true))
	used = b.Measure()
	runtime.GC() // otherwise they are still open
	runtime.GC()
	inf.store.Snapshot().Get(keyOf(0))
	inf.store.Snapshot().Get(keyOf(1))
	grown("what was read lately", 2*each)
	inf.AddIndex("both", func(o settings) []string { return []string{"a", o.Name} })
	grown("entries of an index", 2*200*memory.PerEntry)
	g, folded := inf.store.Gather(10), inf.store.Snapshot().FoldStats().Bytes
	for i, o := range manySettings(10) {
		o.Name = fmt.Sprint("gathered-", i)
		g.Add(o)
	}
	g.Fold()
	a := g.Arrivals(manySettings(10))
	b.KeepArrivalsOpen(a)
	grown("what handlers are to be told of", 10*each+float64(inf.store.Snapshot().FoldStats().Bytes-folded))
	runtime.KeepAlive(a)
	g.Close()
	inf.Halt(nil)
	<-inf.done
}

// TestSizesAreMeasuredAgain: when open objects or all objects have grown by half, or after many
// changes or openings; not before.
func TestSizesAreMeasuredAgain(t *testing.T) {
	inf := withBudget(1, &answering{})
	b, n, size := inf.memory, 0, 0
	put := func(i int) {
		txn := inf.writer.Begin()
		o := namedSettings(i)
		o.Data = map[string]string{"text": strings.Repeat("x", size)}
		txn.Set(keyOf(i), o)
		txn.Commit()
	}
	fold := func(i int) { inf.Fold(inf.store.PackKeys([]object.Key{keyOf(i)}, true)) }
	add := func(more int, folded bool) {
		for ; more > 0; n, more = n+1, more-1 {
			if put(n); folded {
				fold(n)
			}
		}
	}
	add(40, true)
	add(60, false)
	b.Measure()
	for _, step := range []struct {
		name string
		act  func()
		want bool
	}{
		{"as many changes as are noted", func() { b.Inspect(func(c *memory.Counts) { c.Changes += memory.ResampleAfter }) }, false},
		{"one change more", func() { b.Inspect(func(c *memory.Counts) { c.Changes++ }) }, true},
		{"one change after that", func() { b.Inspect(func(c *memory.Counts) { c.Changes++ }) }, false},
		{"half as many open ones more", func() { // objects that were folded
			for i := 1; i <= 30; i++ {
				put(i)
			}
		}, false},
		{"one more of them", func() { put(31) }, true},
		{"half as many of all more", func() { add(50, true) }, false},
		{"one more of all", func() { add(1, true) }, true},
		{"many that were opened", func() {
			inf.store.Snapshot().Get(keyOf(0)) // the first one
			b.Inspect(func(c *memory.Counts) { c.Opens = inf.store.Snapshot().FoldStats().Opens - memory.ResampleAfter })
		}, false},
		{"one more that was opened", func() { b.Inspect(func(c *memory.Counts) { c.Opens-- }) }, true},
		{"changes of a quarter of many objects", func() {
			b.Inspect(func(c *memory.Counts) {
				c.Objects, c.Changes = 2*memory.ResampleShare*memory.ResampleAfter, 2*memory.ResampleAfter
			})
		}, false},
		{"one change more of these", func() { b.Inspect(func(c *memory.Counts) { c.Changes++ }) }, true},
		{"a quarter of many that were opened", func() {
			b.Inspect(func(c *memory.Counts) {
				c.Objects, c.Opens = 2*memory.ResampleShare*memory.ResampleAfter, inf.store.Snapshot().FoldStats().Opens-2*memory.ResampleAfter
			})
		}, false},
		{"one more of these", func() { b.Inspect(func(c *memory.Counts) { c.Opens-- }) }, true},
		{"none", func() {}, false},
	} {
		before := b.MeanSize()
		size += 10_000
		put(99) // an open one
		step.act()
		b.Measure()
		if measured := b.MeanSize() != before; measured != step.want {
			t.Errorf("%s: measured %t, want %t", step.name, measured, step.want)
		}
	}
	inf.Halt(nil)
	<-inf.done
}

// TestLargeObjectsAreNoticed: objects may become much larger, in a few changes or in a list, or be
// joined by larger ones. The budget is then still kept.
func TestLargeObjectsAreNoticed(t *testing.T) {
	const n, budget, size = 1000, 8 << 20, 100_000
	items := func(from, to, size int) (items []settings) {
		for i := from; i < to; i++ {
			o := namedSettings(i)
			o.ResourceVersion, o.Data = fmt.Sprint(size), map[string]string{"text": fmt.Sprint(i) + strings.Repeat("x", size)}
			items = append(items, o)
		}
		return items
	}
	put := func(inf *Informer[settings], items []settings) {
		for _, o := range items {
			txn := inf.writer.Begin()
			txn.Set(object.KeyOf(o), o)
			txn.Commit()
			inf.memory.Note([]object.Delta[settings]{{Type: object.Updated, Key: object.KeyOf(o), Object: o}})
		}
	}
	for name, grow := range map[string]func(inf *Informer[settings]){
		"changes": func(inf *Informer[settings]) { put(inf, items(0, 300, size)) },
		"others":  func(inf *Informer[settings]) { put(inf, items(n, n+300, size)) },
		"a list": func(inf *Informer[settings]) {
			inf.currentParts()[0].Replace(object.Items[settings](items(0, n, size)), fmt.Sprint(size))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inf := withBudget(budget, &answering{items: items(0, n, 10)})
				startIt(t, inf)
				if st := inf.Status().Memory; st.Open != n {
					t.Fatalf("%+v, want %d open objects", st, n)
				}
				grow(inf)
				var open []settings
				for h := range inf.store.Snapshot().AllHeld("") {
					if !h.IsFolded() {
						open = append(open, h.Object())
					}
				}
				if size := sizeOf(open); size > budget+budget/4 {
					t.Errorf("%d open objects take %d bytes, with a budget of %d; %+v", len(open), size, budget, inf.Status().Memory)
				}
			})
		})
	}
}

// TestArrivalsStayOpenWithinTheirShare: arrivals that no longer fit are released, oldest first, and
// all of them if there is no room at all.
func TestArrivalsStayOpenWithinTheirShare(t *testing.T) {
	const each, batch = 1000, 10
	inf := withBudget(memory.ArrivalsShare*each*batch*2, &answering{}) // room for two batches
	b := inf.memory
	b.AssumeSize(each)
	g := inf.store.Gather(5 * batch)
	for i := range 5 * batch {
		g.Add(namedSettings(i))
	}
	g.Fold()
	var all []*store.Arrivals[settings]
	for i := range 5 {
		var objects []settings
		for n := range batch {
			objects = append(objects, namedSettings(i*batch+n))
		}
		all = append(all, g.Arrivals(objects))
		b.KeepArrivalsOpen(all[i])
		for at, a := range all {
			if open := a.Open() > 0; open != (at > i-2) {
				t.Errorf("after %d batches batch %d is open: %t", i+1, at, open)
			}
		}
	}
	b.Fold(false, func() bool { return true })
	for at, a := range all {
		if a.Open() > 0 {
			t.Errorf("batch %d is open although memory is short", at)
		}
	}
	g.Close()
	inf.Halt(nil)
	<-inf.done
}

// TestArrivalsThatAreGone: arrivals count as long as somebody has them, also if they are not released, and no longer.
func TestArrivalsThatAreGone(t *testing.T) {
	const batches, batch = 3, 10
	inf := withBudget(1<<40, &answering{})
	b := inf.memory
	g := inf.store.Gather(batches * batch)
	for i := range batches * batch {
		g.Add(namedSettings(i))
	}
	g.Fold()
	var all []*store.Arrivals[settings]
	for i := range batches {
		var objects []settings
		for n := range batch {
			objects = append(objects, namedSettings(i*batch+n))
		}
		all = append(all, g.Arrivals(objects))
		b.KeepArrivalsOpen(all[i])
	}
	open := func() int {
		return b.OpenForHandlers()
	}
	for _, gone := range []int{1, 0, 2} {
		before := open()
		all[gone] = nil
		if collectUntil(func() bool { return open() < before }); open() != before-batch {
			t.Errorf("%d objects are open for handlers once batch %d is gone, and %d before", open(), gone, before)
		}
		runtime.KeepAlive(all)
	}
	g.Close()
	inf.Halt(nil)
	<-inf.done
}

// collectUntil collects garbage until done, or for long: what depends on a collection happens some time after it.
func collectUntil(done func() bool) {
	for range 1000 {
		if runtime.GC(); done() {
			return
		}
		runtime.Gosched()
	}
}

// TestStaleDictionariesGo when they take more than their share of the budget.
func TestStaleDictionariesGo(t *testing.T) {
	const batch, batches = 500, 4
	r := testseed.Rand(t)
	inf := withBudget(1<<40, &answering{})
	b := inf.memory
	lines := make([]string, batches*100)
	for i := range lines {
		lines[i] = fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64())
	}
	write := func(from, to, kind int) {
		txn := inf.writer.Begin()
		for i := from; i < to; i++ {
			o, text := namedSettings(i), ""
			for range 40 {
				text += lines[kind*100+r.IntN(100)]
			}
			o.Name, o.Data = fmt.Sprintf("%05d", i), map[string]string{"text": text}
			txn.Set(object.KeyOf(o), o)
		}
		txn.Commit()
	}
	for kind := range batches {
		write(kind*batch, (kind+1)*batch, kind)
		inf.Fold(inf.store.PackCold(object.Key{Name: fmt.Sprintf("%05d", kind*batch)}, batch, true))
	}
	for kind := range batches - 1 { // a few of most batches stay
		write(kind*batch+20, (kind+1)*batch, batches-1)
	}
	before := inf.writer.Begin()
	for i := range memory.VisitBatch { // so that the others come after those that are examined first
		before.Set(object.Key{Name: fmt.Sprintf("!%05d", i)}, namedSettings(i))
	}
	before.Commit()
	stale := func() int64 { return inf.store.Snapshot().FoldStats().StaleBytes }
	all := stale()
	if all == 0 {
		t.Fatal("there is no stale dictionary: the test does not test what it should")
	}
	moveBudget(b, all*memory.StaleShare)
	if b.PackAgain(); stale() != all {
		t.Errorf("stale dictionaries take %d bytes, and %d would do", stale(), all)
	}
	moveBudget(b, b.Budget().Bytes()-memory.StaleShare)
	if b.PackAgain(); stale() != 0 {
		t.Errorf("stale dictionaries take %d bytes of %d still", stale(), all)
	}
	inf.Halt(nil)
	<-inf.done
}

// TestBudgetIsKeptByHand: objects edited in by hand fold like those from a server, and removing
// some makes the budget suffice again although nothing else happens. The same holds for indexes and
// for removed namespaces.
func TestBudgetIsKeptByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget = 3 << 20
		inf := withBudget(budget, &answering{})
		startIt(t, inf)
		put := func(n int, fold bool) {
			inf.Edit(func(txn *store.Txn[settings]) {
				for _, o := range manySettings(n) {
					if !fold {
						o.Labels = map[string]string{} // not nil, which no encoding can express
					}
					txn.Put(object.KeyOf(o), o)
				}
			})
		}
		remove := func(n int) {
			inf.Edit(func(txn *store.Txn[settings]) {
				for i := range n {
					txn.Remove(keyOf(i))
				}
			})
		}
		kept := func(what string, want bool) {
			t.Helper()
			used, problem := inf.memory.Budget().Used(), inf.memory.Budget().Problem()
			if (used <= budget) != want || (problem == "") != want {
				t.Errorf("%s: %d bytes are used of %d, problem: %t", what, used, budget, problem != "")
			}
		}
		put(2000, true)
		kept("put in", true)
		remove(2000)
		put(2000, false)
		kept("put in and cannot fold", false)
		remove(2000)
		kept("taken out", true)
		put(2000, true)
		ix := inf.AddIndex("many", func(o settings) (values []string) {
			for i := range 10 {
				values = append(values, fmt.Sprint(i))
			}
			return values
		})
		kept("indexed", true)
		inf.AddIndex("more", func(o settings) (values []string) {
			for i := range 10 {
				values = append(values, fmt.Sprint(i))
			}
			return values
		})
		kept("indexed twice", false)
		inf.RemoveIndexes([]*store.Index[settings]{ix})
		kept("indexed once again", true)
		put(2000, false)
		kept("put in again", false)
		if err := inf.SetNamespaces(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		kept("given up", true)
	})
}

// TestNoMoreIsFoldedThanMust: objects that fit stay open, and are fast to read.
func TestNoMoreIsFoldedThanMust(t *testing.T) {
	const n = 2000
	inf := withBudget(4<<20, &answering{})
	var notes []object.Delta[settings]
	txn := inf.writer.Begin()
	for i, o := range manySettings(n) {
		txn.Set(keyOf(i), o)
		notes = append(notes, object.Delta[settings]{Type: object.Added, Key: keyOf(i), Object: o})
	}
	txn.Commit()
	for range 2 { // the second has nothing to do
		inf.memory.Note(notes)
		st := inf.store.Snapshot().FoldStats()
		if used := inf.memory.Budget().Used(); st.Open < n/4 || st.Folded < memory.FoldBatch || used > inf.memory.Budget().Bytes() || used < inf.memory.Budget().Bytes()/2 {
			t.Errorf("%d open and %d folded objects take %d bytes", st.Open, st.Folded, used)
		}
	}
	inf.Halt(nil)
	<-inf.done
}

// foldAll puts folded objects into the store of an informer that is not running.
func foldAll(inf *Informer[settings], items []settings) {
	g := inf.store.Gather(0)
	for _, o := range items {
		g.Add(o)
	}
	g.Fold()
	txn := inf.writer.Begin()
	txn.Replace("", g, "5", false)
	g.Close()
	txn.Commit()
}

// TestOpenedObjectsThatNobodyHoldsTakeNothing: all objects are held for a while, which exceeds the
// budget. Afterwards there is no problem any more.
func TestOpenedObjectsThatNobodyHoldsTakeNothing(t *testing.T) {
	const n = 3000
	inf := withBudget(1<<40, &answering{})
	b := inf.memory
	foldAll(inf, manySettings(n))
	readAll := func() (held []settings) {
		for _, o := range inf.store.Snapshot().All() {
			held = append(held, o)
		}
		return held
	}
	held := readAll()
	b.Measure()
	most := b.Measure() // now that their sizes are known
	moveBudget(b, most-n*20)
	b.Note(nil)
	if now := inf.Status().Memory; now.Used <= b.Budget().Bytes() || now.Problem == "" || len(held) != n {
		t.Errorf("%d bytes are used while somebody holds %d objects, %d before, and there is no problem", now.Used, len(held), most)
	}
	runtime.KeepAlive(held)
	collectUntil(func() bool { b.Note(nil); return b.Used() <= most-n*30 })
	if now := inf.Status().Memory; now.Used > most-n*30 || now.Problem != "" {
		t.Errorf("%d bytes are used once nobody holds the objects, %d before: %s", now.Used, most, now.Problem)
	}
	inf.Halt(nil)
	<-inf.done
}

// TestProblemEndsWithTheInformer that caused it, although the others have no changes.
func TestProblemEndsWithTheInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := manySettings(1000)
		for _, o := range large {
			o.Labels = map[string]string{} // not nil, which no encoding says
		}
		some := withBudget(1<<20, &answering{items: manySettings(50)})
		many := New(Config[settings]{
			Name: "many", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true}, Memory: some.memory.Budget(),
			NewSource: func(string) (source.ListerWatcher[settings], error) { return &answering{items: large}, nil },
		})
		for _, inf := range []*Informer[settings]{some, many} {
			if err := inf.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if st := some.Status().Memory; !strings.Contains(st.Problem, "many ") || st.Used < 2<<20 {
			t.Errorf("%+v, want a problem", st)
		}
		many.Halt(nil)
		<-many.done
		if st := some.Status().Memory; st.Problem != "" || st.Used != st.Bytes || st.Used > 1<<20 || st.Used == 0 {
			t.Errorf("%+v, want no problem any more", st)
		}
		some.Halt(nil)
		<-some.done
		if st := some.Status().Memory; st.Used != 0 || st.Bytes != 0 || st.Problem != "" {
			t.Errorf("%+v in the end", st)
		}
	})
}
