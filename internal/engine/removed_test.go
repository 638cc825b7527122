package engine

import (
	"context"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/tidings/tidings/object"
)

// TestManyDeletionsAreOpenedOneByOne: folded objects whose namespace is removed, or that a list lacks, are opened when a handler gets to them; for a
// handler of keys, none is.
func TestManyDeletionsAreOpenedOneByOne(t *testing.T) {
	const n = foldBatch + 1
	for name, remove := range map[string]func(t *testing.T, inf *Informer[settings]){
		"removed": func(t *testing.T, inf *Informer[settings]) {
			if err := inf.SetNamespaces(t.Context(), []string{"other"}); err != nil {
				t.Fatal(err)
			}
		},
		"not listed": func(_ *testing.T, inf *Informer[settings]) {
			inf.applyList(inf.currentParts()[0], object.Items[settings]{}, "2000", false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &scoped{version: map[string]string{"a": "1000"}, behind: func(context.Context) error { return nil }}
				for i := range n {
					src.items = append(src.items, setting("a", i, i+1))
				}
				inf := New(Config[settings]{
					Name: "configmaps", Namespaces: []string{"a"}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
					Memory: NewMemory(1, slog.New(slog.DiscardHandler)), NewSource: src.of,
				})
				startIt(t, inf)
				src.items = nil // or they would still be open
				opens := func() uint64 { return inf.store.Snapshot().FoldStats().Opens }
				keys, told := 0, 0
				var before uint64
				proceed := make(chan struct{})
				last, err := inf.Subscribe(func(d object.Delta[settings]) {
					if d.Type == object.Deleted {
						keys++
					}
				}, HandlerOptions{Keys: true})
				if err != nil {
					t.Fatal(err)
				}
				if _, err = inf.Subscribe(func(d object.Delta[settings]) {
					if d.Type != object.Deleted {
						return
					}
					<-proceed
					if told++; opens() > before+uint64(told) {
						t.Errorf("%d objects are open for %d deletions", opens()-before, told)
					}
					if !d.FinalStateUnknown || d.Object == nil || d.Object != d.Old || object.KeyOf(d.Object) != d.Key || d.Object.Data["text"] == "" {
						t.Errorf("told of %+v", d)
					}
				}, HandlerOptions{}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				runtime.GC()
				runtime.GC()
				if st := inf.store.Snapshot().FoldStats(); st.Folded != n {
					t.Fatalf("%d objects are folded", st.Folded)
				}
				before = opens()
				remove(t, inf)
				synctest.Wait()
				if got := opens() - before; got > 1 || keys != n || last.Status().Pending != 0 || inf.store.Snapshot().Len() != 0 {
					t.Errorf("%d objects were opened, %d keys were told", got, keys)
				}
				close(proceed)
				synctest.Wait()
				if told != n {
					t.Errorf("%d deletions were told", told)
				}
			})
		})
	}
}
