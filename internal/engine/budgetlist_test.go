package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/internal/budget"
	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/memory"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// looking is a source that calls a function after each object of a list.
type looking struct {
	*answering
	look func(n int) error
}

func (l looking) List(ctx context.Context, opts source.ListOptions[settings], each func(settings) error) (source.ListResult, error) {
	n := 0
	return l.answering.List(ctx, opts, func(o settings) error {
		if err := each(o); err != nil {
			return err
		}
		n++
		return l.look(n)
	})
}

func keyOf(i int) object.Key { return object.Key{Name: fmt.Sprint(i)} }

// manySettings are objects of about 3 kB each, which pack well.
func manySettings(n int) (items []settings) {
	for i := range n {
		o := namedSettings(i)
		o.ResourceVersion, o.Labels = "5", map[string]string{"app": "the same for all of them"}
		o.Data = map[string]string{"text": fmt.Sprint(i) + strings.Repeat("all work and no play ", 100)}
		items = append(items, o)
	}
	return items
}

// withBudget returns an informer for these objects, with a budget, that is not started.
func withBudget(budget int64, src source.ListerWatcher[settings]) *Informer[settings] {
	return New(Config[settings]{
		Name: "configmaps", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
		Memory: newBudget(budget), NewSource: func(string) (source.ListerWatcher[settings], error) { return src, nil },
	})
}

// newBudget returns a budget that logs nothing.
func newBudget(bytes int64) *budget.Budget { return budget.New(bytes, slog.New(slog.DiscardHandler)) }

func sizeOf(objects []settings) int64 { return budget.SizeOf(objects) }

// moveBudget gives an informer a budget of its own, of another size.
func moveBudget(b *memory.Account[settings], bytes int64) {
	b.MoveTo(newBudget(bytes))
}

func startIt(t *testing.T, inf *Informer[settings]) {
	t.Helper()
	if err := inf.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		inf.Halt(nil)
		<-inf.done
		if used := inf.memory.Budget().Used(); used != 0 {
			t.Errorf("%d bytes of the budget are taken in the end", used)
		}
	})
	synctest.Wait()
}

// TestListStaysWithinItsBudget: a list that does not fit is folded as it streams, so that the
// budget is exceeded at most by the objects that arrive between two checks.
func TestListStaysWithinItsBudget(t *testing.T) {
	const budget, each = 9 << 17, 3500 // the source holds all objects, so that the table of opened ones has them too
	synctest.Test(t, func(t *testing.T) {
		var inf *Informer[settings]
		var most int64
		src := looking{&answering{items: manySettings(3000)}, func(n int) error {
			used := inf.memory.Budget().Used()
			if most = max(most, used); n == memory.CheckEvery && used < memory.CheckEvery/2*2000 {
				t.Errorf("%d objects of a list are counted as %d bytes", n, used)
			}
			return nil
		}}
		inf = withBudget(budget, src)
		startIt(t, inf)
		if most > budget+memory.CheckEvery*each {
			t.Errorf("%d bytes were used during the list, with a budget of %d", most, budget)
		}
		st := inf.Status().Memory
		if st.Folded != 3000 || st.Open != 0 || st.Problem != "" || st.Used != st.Bytes || st.Used > budget {
			t.Errorf("%+v, want 3,000 folded objects within the budget", st)
		}
		most = 0
		src.items = manySettings(3000)
		for _, o := range src.items {
			o.ResourceVersion = "6"
		}
		inf.currentParts()[0].forceRelist(errors.New("again"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if st := inf.Status(); most == 0 || most > 2*budget+memory.CheckEvery*each || st.Memory.Folded != 3000 {
			t.Errorf("%d bytes were used during another list, with a budget of %d; %+v", most, budget, st.Memory)
		}
		for i := range 3000 {
			if o, ok := inf.store.Snapshot().Get(keyOf(i)); !ok || !strings.HasPrefix(o.Data["text"], fmt.Sprint(i)+"all") {
				t.Fatalf("object %d is %v", i, o)
			}
		}
	})
}

// TestSizeIsLearnedAsAListGoesOn: the first objects of a list may not be of typical size.
func TestSizeIsLearnedAsAListGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inf *Informer[settings]
		items := manySettings(memory.CheckEvery)
		for _, o := range items[:2*memory.FirstCheck] {
			o.Data = nil
		}
		inf = withBudget(1<<30, looking{&answering{items: items}, func(n int) error {
			if used := inf.memory.Budget().Used(); n == memory.CheckEvery && used < int64(memory.CheckEvery-10*memory.FirstCheck)/2*2000 {
				t.Errorf("%d objects, few of which are small, are counted as %d bytes", n, used)
			}
			return nil
		}})
		startIt(t, inf)
	})
}

// TestLargeObjectsOfAList: a list is folded in time even if its objects are large, also if only the later ones are.
func TestLargeObjectsOfAList(t *testing.T) {
	const budget, small, large, size = 16 << 20, 300, 300, 200_000
	for _, before := range []int{0, small} {
		synctest.Test(t, func(t *testing.T) {
			items := manySettings(before + large)
			for i, o := range items[before:] {
				o.Data = map[string]string{"text": fmt.Sprint(i) + strings.Repeat("x", size)}
			}
			var inf *Informer[settings]
			most := 0
			inf = withBudget(budget, looking{&answering{items: items}, func(n int) error {
				most = max(most, n-max(before, inf.store.Snapshot().FoldStats().Folded))
				return nil
			}})
			startIt(t, inf)
			if most*size > budget+budget/4 {
				t.Errorf("after %d small objects %d large ones were open, which take %d bytes, with a budget of %d", before, most, most*size, budget)
			}
		})
	}
}

// TestUnfoldableObjectsCountOnce, also while their list is being read.
func TestUnfoldableObjectsCountOnce(t *testing.T) {
	for _, handlers := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			items := manySettings(1000)
			for _, o := range items {
				o.Labels = map[string]string{} // not nil, which no encoding says
			}
			var inf *Informer[settings]
			inf = withBudget(1, looking{&answering{items: items}, func(n int) error {
				b := inf.memory
				b.Measure()
				if used, want := float64(b.Budget().Used()), float64(n)*(b.MeanSize()+memory.PerObject); used > 1.1*want+float64(b.SharedBytes())+10_000 || n == 1000 && used < 0.6*want {
					t.Errorf("%d objects are counted as %.0f bytes, want %.0f", n, used, want)
				}
				return nil
			}})
			for range handlers {
				if _, err := inf.Subscribe(func(object.Delta[settings]) {}, HandlerOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			startIt(t, inf)
			if st := inf.Status(); st.Objects != 1000 || st.Memory.Open != 1000 || inf.memory.Gathered.Load() != 0 {
				t.Errorf("%+v, and %d bytes of a list that is no more", st.Memory, inf.memory.Gathered.Load())
			}
		})
	}
}

// TestListThatFitsStaysOpen: the list and the store do not both count the objects, and nothing is
// folded within the budget.
func TestListThatFitsStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := withBudget(5<<20, looking{&answering{items: manySettings(1000)}, func(int) error { return nil }})
		startIt(t, inf)
		if st := inf.Status().Memory; st.Open != 1000 || st.Used > 4<<20 || st.Used < 2<<20 || st.Used != st.Bytes {
			t.Errorf("%+v, want 1,000 open objects within the budget", st)
		}
	})
}

// TestListThatBreaksTakesNothing: the objects of a failed list no longer count.
func TestListThatBreaksTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inf *Informer[settings]
		broken := 0
		inf = withBudget(1<<30, looking{&answering{items: manySettings(1000)}, func(n int) error {
			if n < 900 {
				return nil
			}
			if broken++; inf.memory.Budget().Used() < 500*2000 {
				t.Errorf("900 objects of a list are counted as %d bytes", inf.memory.Budget().Used())
			}
			return errors.New("broken off")
		}})
		startIt(t, inf)
		inf.Status() // measures
		if used := inf.memory.Budget().Used(); broken == 0 || used > 100_000 {
			t.Errorf("%d lists broke off, and %d bytes are used", broken, used)
		}
	})
}

// TestFoldedListIsTransformed, even if objects are folded as they come.
func TestFoldedListIsTransformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := withBudget(1, &answering{items: manySettings(600)})
		calls := 0
		err := inf.SetTransform(func(o settings) (settings, error) {
			calls++
			o.Annotations = map[string]string{"transformed": o.Name}
			return o, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		startIt(t, inf)
		for i := range 600 {
			if o, ok := inf.store.Snapshot().Get(keyOf(i)); !ok || o.Annotations["transformed"] != fmt.Sprint(i) {
				t.Fatalf("object %d is %v", i, o)
			}
		}
		if calls != 600 {
			t.Errorf("%d calls of the transform for 600 objects", calls)
		}
	})
}

// TestOpenBytesAreThoseThatFold: an informer whose objects cannot be folded has nothing to fold.
func TestOpenBytesAreThoseThatFold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items := manySettings(50)
		for _, o := range items {
			o.Labels = map[string]string{} // not nil, which no encoding says
		}
		inf := withBudget(1, &answering{items: items})
		startIt(t, inf)
		if st := inf.Status().Memory; st.Unfoldable != 50 || st.Open != 50 || inf.memory.OpenBytes() != 0 {
			t.Errorf("%d bytes to fold of %+v", inf.memory.OpenBytes(), st)
		}
	})
}

// telling is a source that has objects decoded by the engine, as source.HTTP does, some of them
// before it hands out the first.
type telling struct{ *answering }

// arriving returns an object as source.HTTP has it, which is to be decoded to o.
func arriving(t testing.TB, o settings) *intake.Encoded[settings] {
	return &intake.Encoded[settings]{
		Data: marshaled(t, o), Reuse: true, Key: object.KeyOf(o), UID: o.UID, Version: o.ResourceVersion,
		Stable: true, Exact: true,
		Decode: func(settings, []byte) (settings, error) { return o, nil },
	}
}

func (s *telling) Self() any { return s }

func (s *telling) ListDecoded(
	ctx context.Context, opts source.ListOptions[settings], by intake.Decoder[settings],
	each func(intake.Received[settings]) error,
) (source.ListResult, error) {
	var ahead []intake.Received[settings]
	handOut := func() error {
		for _, o := range ahead {
			if err := each(o); err != nil {
				return err
			}
		}
		ahead = ahead[:0]
		return nil
	}
	result, err := s.answering.List(ctx, opts, func(o settings) error {
		if len(ahead) == 0 {
			by.Begin()
		}
		e := arriving(nil, o)
		e.Reuse, e.Exact = opts.Previous != nil, !opts.NoSharing
		r, err := by.Decode(e)
		if err != nil {
			return err
		}
		if ahead = append(ahead, r); len(ahead) < 20 {
			return nil
		}
		return handOut()
	})
	if err == nil {
		err = handOut()
	}
	return result, err
}

func (s *telling) WatchDecoded(
	ctx context.Context, opts source.WatchOptions[settings], _ intake.Decoder[settings],
) (source.Stream[settings], error) {
	return s.Watch(ctx, opts)
}

// TestTransformGoesBeforeWhatWasReceived: the folded objects are the transformed ones, not those that were received.
func TestTransformGoesBeforeWhatWasReceived(t *testing.T) {
	for _, transformed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			inf := withBudget(1, &telling{&answering{items: manySettings(600)}})
			want := ""
			if transformed {
				want = "yes"
				err := inf.SetTransform(func(o settings) (settings, error) {
					o.Annotations = map[string]string{"transformed": "yes"}
					return o, nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			startIt(t, inf)
			if st := inf.Status().Memory; st.Folded != 600 {
				t.Errorf("%+v", st)
			}
			for i := range 600 {
				if o, ok := inf.store.Snapshot().Get(keyOf(i)); !ok || o.Annotations["transformed"] != want || !strings.HasPrefix(o.Data["text"], fmt.Sprint(i)+"all") {
					t.Fatalf("object %d is %v", i, o)
				}
			}
		})
	}
}

// TestInitialEventsAreTransformed, including those that change an earlier object, but not objects that the store holds.
func TestInitialEventsAreTransformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := namedSettings(1)
		held.ResourceVersion = "5"
		before := namedSettings(2)
		before.ResourceVersion = "5"
		inf := withBudget(1<<30, &answering{items: []settings{held, before}})
		calls := 0
		err := inf.SetTransform(func(o settings) (settings, error) {
			calls++
			o.Annotations = map[string]string{"transformed": o.ResourceVersion}
			return o, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		startIt(t, inf)
		held, _ = inf.store.Snapshot().Get(object.KeyOf(held))
		p := inf.currentParts()[0]
		p.inFlight.opened = append(p.inFlight.opened, held)
		g := p.Gather(2)
		g.Add(received(held))
		first, second := namedSettings(2), namedSettings(2)
		first.ResourceVersion, second.ResourceVersion = "6", "7"
		g.Add(received(first))
		g.Set(1, received(second))
		g.Set(0, received(held))
		for key, o := range g.Collection().All() {
			if want := map[string]string{"1": "5", "2": "7"}[key.Name]; o.ResourceVersion != want || o.Annotations["transformed"] != want {
				t.Errorf("%s is %v", key, o)
			}
		}
		if calls != 4 {
			t.Errorf("%d calls of the transform, want one for each new state", calls)
		}
		g.Close()
		if len(p.inFlight.opened) != 0 {
			t.Error("what was opened for the list is kept open")
		}
	})
}

// TestFoldedListThatBreaks: if a first list breaks off, objects sent to handlers stay; further
// attempts that bring the same objects do not add to the memory.
func TestFoldedListThatBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := withBudget(1, looking{&answering{items: manySettings(1000)}, func(n int) error {
			if n == 1000 {
				return errors.New("broken off")
			}
			return nil
		}})
		startIt(t, inf)
		time.Sleep(time.Minute)
		inf.Halt(nil)
		<-inf.Done()
		if st := inf.Status(); st.Parts[0].Reflector.Failures < 3 || st.Memory.Folded == 0 || st.Memory.Folded > 1000 || st.Memory.FoldedBytes > fold.MaxDictionary+300*1000 {
			t.Errorf("%d failures, %+v", st.Parts[0].Reflector.Failures, st.Memory)
		}
	})
}

// TestUnchangedStatesAreObjects: a folded state that a list brings again is kept as it is, and is the object for
// everybody who looks, whatever is done with it in a list.
func TestUnchangedStatesAreObjects(t *testing.T) {
	for name, list := range map[string]func(g *memory.List[settings], same intake.Received[settings], older settings){
		"added": func(g *memory.List[settings], same intake.Received[settings], _ settings) { g.Add(same) },
		"set": func(g *memory.List[settings], same intake.Received[settings], older settings) {
			g.Add(received(older))
			g.Set(0, same)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := manySettings(1)[0]
				inf := withBudget(1, &telling{&answering{items: []settings{o}}})
				startIt(t, inf)
				p := inf.currentParts()[0]
				held, _ := inf.store.Snapshot().Held(object.KeyOf(o))
				if !held.IsFolded() {
					t.Fatal("the object is open")
				}
				g := p.Gather(1).(*memory.List[settings])
				older := o.DeepCopy()
				older.ResourceVersion = "4"
				list(g, intake.Received[settings]{Unchanged: true, State: p.inFlight.unchanged(&held)}, older)
				for _, got := range g.Collection().All() {
					if got.ResourceVersion != "5" || got.Data["text"] != o.Data["text"] {
						t.Errorf("listed %v", got)
					}
				}
				g.Close()
			})
		})
	}
}

// received returns an object as a source delivers it that decodes by itself.
func received(o settings) intake.Received[settings] { return intake.Received[settings]{Object: o} }

// TestListThatIsGivenUpTakesNothing, however much of it was read.
func TestListThatIsGivenUpTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := withBudget(1<<30, &answering{})
		startIt(t, inf)
		g := inf.currentParts()[0].Gather(0)
		for _, o := range manySettings(100) {
			g.Add(received(o))
		}
		if n := inf.memory.Gathered.Load(); n < 50*2000 {
			t.Errorf("100 objects count as %d bytes", n)
		}
		g.Close()
		if n := inf.memory.Gathered.Load(); n != 0 {
			t.Errorf("%d bytes are counted of nothing", n)
		}
	})
}

// TestRelistCountsWhatIsNew: an object that is open in the store and unchanged in a list counts once.
func TestRelistCountsWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := withBudget(1<<30, &answering{items: manySettings(100)})
		startIt(t, inf)
		g := inf.currentParts()[0].Gather(0).(*memory.List[settings])
		used := inf.memory.Measure()
		for _, o := range inf.store.Snapshot().All() {
			g.Add(received(o))
		}
		g.Count()
		if now := inf.memory.Measure(); now != used || g.Open() != 0 {
			t.Errorf("%d bytes are used while %d unchanged objects are listed, %d before", now, g.Len(), used)
		}
		changed := namedSettings(1)
		changed.ResourceVersion = "6"
		g.Add(received(changed))
		g.Count()
		if now := inf.memory.Measure(); now <= used || g.Open() != 1 {
			t.Errorf("%d bytes are used with %d objects that have changed, %d without", now, g.Open(), used)
		}
		g.Close()
		if now := inf.memory.Measure(); now != used {
			t.Errorf("%d bytes are used behind the list, %d before", now, used)
		}
	})
}

// TestUnchangedObjectsAreNotPackedAgain, neither folded ones nor ones that somebody holds.
func TestUnchangedObjectsAreNotPackedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := withBudget(1, &answering{items: manySettings(100)})
		startIt(t, inf)
		g := inf.currentParts()[0].Gather(0).(*memory.List[settings])
		before := inf.store.Snapshot().FoldStats()
		for _, o := range inf.store.Snapshot().All() {
			g.Add(received(o))
		}
		g.Fold()
		if now := inf.store.Snapshot().FoldStats(); g.Len() != 100 || now.Bytes != before.Bytes {
			t.Errorf("folded objects take %d bytes after %d of them were listed, %d before", now.Bytes, g.Len(), before.Bytes)
		}
		g.Close()
	})
}
