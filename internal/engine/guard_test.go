package engine

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/guard"
	"github.com/tidings/tidings/internal/usercode"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

func namedSettings(i int) settings {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}
}

// TestMutationsAreLogged with who wrote to what, and what to do.
func TestMutationsAreLogged(t *testing.T) {
	var log strings.Builder
	g := &mutationGuard{resource: "configmaps", log: usercode.NewThrottledLog(slog.New(slog.NewTextHandler(&log, nil)))} // no report function
	g.corrupted("spec")                                                                                                  // it is off
	o := namedSettings(1)
	check := guard.New(g.sampled, nil).Watch(o, object.KeyOf(o))
	check("innocent")
	if g.found.Load() != 0 || log.Len() > 0 {
		t.Errorf("%d found, logged %s", g.found.Load(), log.String())
	}
	o.Data = map[string]string{"written": "to"}
	check("writer")
	if text := log.String(); g.found.Load() != 1 || !strings.Contains(text, "DeepCopyObject") || !strings.Contains(text, "key=1 handler=writer") {
		t.Errorf("%d found, logged %s", g.found.Load(), text)
	}
}

// TestWritesToIndexedObjectsAreFound: after a write, the object's present values are not those it is indexed under.
func TestWritesToIndexedObjectsAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var found []Mutation
		inf := New(Config[settings]{Name: "configmaps", Namespaces: []string{""}, Options: Options{
			Logger: slog.New(slog.DiscardHandler), NoWatchList: true, OnMutation: func(m Mutation) { found = append(found, m) },
		}, NewSource: func(string) (source.ListerWatcher[settings], error) { return &answering{}, nil }})
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		inf.AddIndex("color", func(o settings) []string { return []string{o.Labels["color"]} })
		first := namedSettings(1)
		first.ResourceVersion, first.Labels = "15", map[string]string{"color": "red"}
		p := inf.currentParts()[0]
		p.Change(changesOf(object.Delta[settings]{Type: object.Added, Key: object.KeyOf(first), Object: first}), "15")
		first.Labels["color"] = "blue"
		next := namedSettings(1)
		next.ResourceVersion, next.Labels = "16", map[string]string{"color": "green"}
		p.Change(changesOf(object.Delta[settings]{Type: object.Updated, Key: object.KeyOf(next), Object: next}), "16")
		synctest.Wait()
		want := []Mutation{{Resource: "configmaps", Key: object.KeyOf(first)}, {Resource: "configmaps", Key: object.KeyOf(first), Field: "index color"}}
		if !slices.Equal(found, want) || inf.Status().Mutations != 2 { // the guard finds it too
			t.Errorf("%+v", found)
		}
		inf.Halt(nil)
		<-inf.done
	})
}

// TestWritesToFoldedObjectsAreFound: an object that was written to is looked at before it is folded. Afterwards nobody
// could tell, and readers would get what was written.
func TestWritesToFoldedObjectsAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var found []Mutation
		inf := New(Config[settings]{Name: "configmaps", Namespaces: []string{""}, Options: Options{
			Logger: slog.New(slog.DiscardHandler), NoWatchList: true, OnMutation: func(m Mutation) { found = append(found, m) },
		}, Memory: newBudget(1 << 30), NewSource: func(string) (source.ListerWatcher[settings], error) {
			return &answering{}, nil
		}})
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for i := range 3 {
			time.Sleep(time.Second) // the guard remembers an object now and then
			o := namedSettings(i)
			o.ResourceVersion = fmt.Sprint(15 + i)
			change := object.Delta[settings]{Type: object.Added, Key: object.KeyOf(o), Object: o}
			inf.currentParts()[0].Change(changesOf(change), o.ResourceVersion)
		}
		written, _ := inf.Store().Snapshot().Get(object.Key{Name: "1"})
		written.Data = map[string]string{"written": "to"}
		inf.memory.Fold(true, func() bool { return false })
		synctest.Wait()
		if st := inf.Status(); st.Memory.Folded != 3 || st.Mutations != 1 {
			t.Errorf("%d objects are folded, and %d writes found; want 3 and 1", st.Memory.Folded, st.Mutations)
		}
		if want := []Mutation{{Resource: "configmaps", Key: object.KeyOf(written)}}; !slices.Equal(found, want) {
			t.Errorf("found %+v, want %+v", found, want)
		}
		inf.Halt(nil)
		<-inf.done
	})
}
