package engine

import (
	"context"
	"log/slog"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// sharing is a source that remembers what objects have in common.
type sharing struct{ *answering }

func (sharing) SharedBytes() int64 { return 1 << 20 }

// TestSharedBytesCount: what a source and the codec remember of objects is part of what an informer takes.
func TestSharedBytesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := namedSettings(1)
		o.ResourceVersion = "5"
		bytes := func(src source.ListerWatcher[settings]) (int64, *Informer[settings]) {
			inf := New(Config[settings]{Name: "configmaps", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
				Memory: NewMemory(1<<30, slog.New(slog.DiscardHandler)), NewSource: func(string) (source.ListerWatcher[settings], error) { return src, nil }})
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
			data, err := inf.budget.codec.Append(nil, o)
			if err == nil {
				_, err = inf.budget.codec.Decode(data, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if got, codec := inf.budget.sharedBytes(), inf.budget.codec.SharedBytes(); codec == 0 || got != 1<<20+codec {
			t.Errorf("%d shared bytes, want those of the source and the codec's %d", got, codec)
		}
	})
}

// untyped has config maps as objects of any type.
type untyped struct{ *answering }

func (u untyped) List(ctx context.Context, _ source.ListOptions[object.Object], each func(object.Object) error) (source.ListResult, error) {
	return u.answering.List(ctx, source.ListOptions[settings]{}, func(o settings) error { return each(o) })
}

func (u untyped) Watch(ctx context.Context, opts source.WatchOptions[object.Object]) (source.Stream[object.Object], error) {
	for i := range u.items { // a source that asks for what is there
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

// TestBudgetOfATypeThatCannotBeFolded: the objects stay open, are counted, and the status says that the budget is too small.
func TestBudgetOfATypeThatCannotBeFolded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &answering{}
		for i := range 10 {
			o := namedSettings(i)
			o.ResourceVersion = "5"
			src.items = append(src.items, o)
		}
		inf := New(Config[object.Object]{Name: "anything", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
			Memory: NewMemory(1, slog.New(slog.DiscardHandler)), NewSource: func(string) (source.ListerWatcher[object.Object], error) { return untyped{src}, nil }})
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		st := inf.Status()
		if st.Memory.Open != 10 || st.Memory.Folded != 0 || st.Memory.Problem == "" || st.Memory.Used <= 10*perObject {
			t.Errorf("%+v, want ten open objects over the budget", st.Memory)
		}
		if r := st.Parts[0].Reflector; r.Problem != nil || r.Panics != 0 {
			t.Errorf("problem %v", r.Problem)
		}
		inf.Halt(nil)
		<-inf.Done()
	})
}

// ofSettings says what its objects are.
type ofSettings struct{ untyped }

func (ofSettings) ObjectType() reflect.Type { return reflect.TypeFor[settings]() }

// TestBudgetOfATypeThatTheSourceTells: where the informer's own type says nothing, the source's does, so that objects can be folded.
func TestBudgetOfATypeThatTheSourceTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &answering{}
		for i := range 10 {
			o := namedSettings(i)
			o.ResourceVersion = "5"
			src.items = append(src.items, o)
		}
		inf := New(Config[object.Object]{Name: "anything", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
			Memory: NewMemory(1, slog.New(slog.DiscardHandler)), NewSource: func(string) (source.ListerWatcher[object.Object], error) {
				return ofSettings{untyped{src}}, nil
			}})
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

// TestSharedBytesOfABudget: a source gets a small part of it, but enough to be of use.
func TestSharedBytesOfABudget(t *testing.T) {
	for budget, want := range map[int64]int{-1: 0, 0: 0, 1: minShared, sharedShare * minShared: minShared, sharedShare << 20: 1 << 20} {
		if got := SharedBytes(budget); got != want {
			t.Errorf("%d of %d, want %d", got, budget, want)
		}
	}
}

// TestWhatCounts: objects, their places in the store, and the entries of indexes.
func TestWhatCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := withBudget(1<<30, &answering{items: manySettings(100)})
		inf.cfg.NoMutationGuard = true
		startIt(t, inf)
		before := inf.Status().Memory
		if got, want := before.Bytes-before.OpenBytes, inf.budget.sharedBytes()+100*perObject; got != want || before.OpenBytes < 100*2000 || inf.budget.openBytes() != before.OpenBytes {
			t.Errorf("%d bytes beside %d of open objects, want %d; %d can be folded", got, before.OpenBytes, want, inf.budget.openBytes())
		}
		inf.AddIndex("both", func(o settings) []string { return []string{"a", o.Name} })
		if grown := inf.Status().Memory.Bytes - before.Bytes; grown != 200*perEntry {
			t.Errorf("200 entries of an index count as %d bytes", grown)
		}
	})
}

// TestChangedKeysAreBounded: of many changes the oldest are remembered, and none of what is gone.
func TestChangedKeysAreBounded(t *testing.T) {
	inf := withBudget(1<<40, &answering{})
	var notes []object.Delta[settings]
	txn := inf.writer.Begin()
	for i := range 2 * maxChanged {
		kind := object.Updated
		if i%4 == 0 {
			kind = object.Deleted
		} else {
			txn.Set(keyOf(i), namedSettings(i))
		}
		notes = append(notes, object.Delta[settings]{Type: kind, Key: keyOf(i)})
	}
	txn.Commit()
	inf.budget.note(notes)
	if n := len(inf.budget.changed); n != maxChanged || inf.budget.changed[0] != keyOf(1) || inf.budget.changed[3] != keyOf(5) {
		t.Errorf("%d keys are remembered", n)
	}
	for left := maxChanged; left > 0; {
		keys := inf.budget.takeChanged()
		if len(keys) != min(left, foldBatch) {
			t.Fatalf("%d keys at once, %d were left", len(keys), left)
		}
		left -= len(keys)
	}
	if len(inf.budget.takeChanged()) != 0 || inf.budget.changed != nil {
		t.Error("keys are taken twice, or their room is kept")
	}
	inf.Halt(nil)
	<-inf.done
}
