package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/tidings/tidings/internal/memory"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// TestManyDeletionsAreOpenedOneByOne: folded objects whose namespace is removed, or that a list
// lacks, are opened when a handler gets to them; for a handler of keys, none is.
func TestManyDeletionsAreOpenedOneByOne(t *testing.T) {
	const n = memory.FoldBatch + 1
	for name, remove := range map[string]func(t *testing.T, inf *Informer[settings]){
		"removed": func(t *testing.T, inf *Informer[settings]) {
			if err := inf.SetNamespaces(t.Context(), []string{"other"}); err != nil {
				t.Fatal(err)
			}
		},
		"not listed": func(_ *testing.T, inf *Informer[settings]) {
			inf.applyList(inf.currentParts()[0], object.Items[settings]{}, "2000", newerOnly)
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
					Memory: newBudget(1), NewSource: src.of,
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

// fading is an object that cannot be decoded any more once faded is set. Its methods panic without
// the metadata that it refers to.
type fading struct {
	referring `json:",inline"`
	Spec      fadingSpec `json:"spec"`
}

type fadingSpec struct{}

var faded atomic.Bool

func (*fadingSpec) UnmarshalJSON([]byte) error {
	if faded.Load() {
		return errors.New("faded")
	}
	return nil
}

func (f *fading) DeepCopyObject() kruntime.Object {
	return &fading{referring: referring{f.TypeMeta, f.ObjectMeta.DeepCopy()}}
}

// TestRemovedObjectsThatCannotBeOpened: a handler learns of the deletion of each, even if the type
// has no way to make an object with just a name.
func TestRemovedObjectsThatCannotBeOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = memory.FoldBatch + 1
		faded.Store(false)
		src := source.Funcs[*fading]{
			ListFunc: func(_ context.Context, _ source.ListOptions[*fading], each func(*fading) error) (source.ListResult, error) {
				for i := range n {
					o := &fading{referring: referring{ObjectMeta: &metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint(i), ResourceVersion: "5"}}}
					if err := each(o); err != nil {
						return source.ListResult{}, err
					}
				}
				return source.ListResult{ResourceVersion: "10"}, nil
			},
			WatchFunc: func(ctx context.Context, _ source.WatchOptions[*fading]) (source.Stream[*fading], error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		}
		inf := New(Config[*fading]{
			Name: "fadings", Namespaces: []string{"a"}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
			Memory: newBudget(1), NewSource: func(string) (source.ListerWatcher[*fading], error) { return src, nil },
		})
		gone := map[object.Key]bool{}
		if _, err := inf.Subscribe(func(d object.Delta[*fading]) {
			if d.Type == object.Deleted && d.Object != nil {
				gone[d.Key] = true
			}
		}, HandlerOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		runtime.GC() // otherwise the objects are still open
		runtime.GC()
		faded.Store(true)
		if err := inf.SetNamespaces(t.Context(), nil); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if len(gone) != n {
			t.Errorf("told of %d deletions, want %d", len(gone), n)
		}
		inf.Halt(nil)
		<-inf.done
	})
}

// referring is an object whose methods panic without the metadata that it refers to.
type referring struct {
	metav1.TypeMeta    `json:",inline"`
	*metav1.ObjectMeta `json:"metadata"`
}

func (r *referring) DeepCopyObject() kruntime.Object {
	return &referring{TypeMeta: r.TypeMeta, ObjectMeta: r.ObjectMeta.DeepCopy()}
}
