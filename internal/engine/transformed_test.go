package engine

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// TestTransformedObjectsShareEqualParts, and nothing stays of what the transform removed.
func TestTransformedObjectsShareEqualParts(t *testing.T) {
	const n = 300
	text := strings.Repeat("x", 10_000)
	transforms := map[string]func(settings) settings{
		"in place": func(o settings) settings { delete(o.Annotations, "removed"); return o },
		"a copy": func(o settings) settings {
			out := o.DeepCopy()
			out.Annotations = map[string]string{}
			return out
		},
	}
	for name, transform := range transforms {
		for _, budget := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", budget ", budget), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					src := &making{n: n, of: func(i int) settings {
						o := namedSettings(i)
						o.Annotations = map[string]string{"removed": fmt.Sprint(i, text)}
						o.Data = map[string]string{"same": fmt.Sprint("all ", text)} // not the same memory
						return o
					}}
					inf := withBudget(1<<30, src)
					if !budget {
						inf = withoutBudget(src)
					}
					if err := inf.SetTransform(func(o settings) (settings, error) { return transform(o), nil }); err != nil {
						t.Fatal(err)
					}
					before := wiretest.LiveHeap()
					if err := inf.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
					defer func() { inf.Halt(nil); <-inf.done }()
					synctest.Wait()
					if got := wiretest.LiveHeap() - before; got > n*int64(len(text))/2 {
						t.Errorf("%d objects take %d bytes, more than half of what they have in common or what was removed", n, got)
					}
					snap := inf.store.Snapshot()
					if snap.Len() != n {
						t.Errorf("the store has %d objects", snap.Len())
					}
					for key, o := range snap.All() {
						if o.Data["same"] != "all "+text || o.Annotations == nil || len(o.Annotations) > 0 {
							t.Fatalf("%s has %d data and the annotations %v", key, len(o.Data), o.Annotations)
						}
					}
				})
			})
		}
	}
}

func withoutBudget(src source.ListerWatcher[settings]) *Informer[settings] {
	return New(Config[settings]{
		Name: "configmaps", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
		NewSource: func(string) (source.ListerWatcher[settings], error) { return src, nil },
	})
}

// making is a source that makes its objects as they are listed.
type making struct {
	n  int
	of func(i int) settings
}

func (m *making) List(_ context.Context, _ source.ListOptions[settings], each func(settings) error) (source.ListResult, error) {
	for i := range m.n {
		if err := each(m.of(i)); err != nil {
			return source.ListResult{}, err
		}
	}
	return source.ListResult{ResourceVersion: "9"}, nil
}

func (m *making) Watch(ctx context.Context, opts source.WatchOptions[settings]) (source.Stream[settings], error) {
	return quiet{ctx}, nil
}

// TestChangeOfATransformedObject shares what is equal in the state that the store holds.
func TestChangeOfATransformedObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := withBudget(1<<30, &answering{items: manySettings(1)})
		if err := inf.SetTransform(func(o settings) (settings, error) { return o, nil }); err != nil {
			t.Fatal(err)
		}
		startIt(t, inf)
		before, _ := inf.store.Snapshot().Get(keyOf(0))
		changed := before.DeepCopy()
		changed.ResourceVersion, changed.Labels = "8", map[string]string{"new": "yes"}
		inf.currentParts()[0].Change(changesOf(object.Delta[settings]{Type: object.Updated, Key: keyOf(0),
			Object: changed}), "8")
		now, _ := inf.store.Snapshot().Get(keyOf(0))
		if now == changed || now.Labels["new"] != "yes" || mapOf(now.Data) != mapOf(before.Data) {
			t.Errorf("the new state %v does not share the data of the one before", now.Labels)
		}
	})
}

// mapOf returns the identity of a map.
func mapOf(m map[string]string) string { return fmt.Sprintf("%p", m) }
