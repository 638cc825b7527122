package engine

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/memory"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// TestChangesOfPatches: under the rule, objects that resemble each other fold as patches of a few. Random changes of
// them give the handler the state before and the new one, whether that still resembles the others, somebody holds the
// old one, or it is another object; and everybody reads what a dumb map has.
func TestChangesOfPatches(t *testing.T) {
	testseed.Each(t, 2, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { changesOfPatches(t, rand.New(rand.NewPCG(seed, 0))) })
	})
}

func changesOfPatches(t *testing.T, r *rand.Rand) {
	items := similarSettings(r, 15, 80)
	model, keys := map[object.Key]settings{}, []object.Key(nil)
	for _, o := range items {
		o.UID, o.Data["text"] = types.UID("uid-"+o.Name), strings.Clone(o.Data["text"]) // or all take little
		key := object.KeyOf(o).Clone()
		model[key], keys = o.DeepCopy(), append(keys, key)
	}
	src := &answering{items: items}
	inf := New(Config[settings]{
		Name: "configmaps", Namespaces: []string{""},
		Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
		Clock:   new(memory.Clock), NewSource: func(string) (source.ListerWatcher[settings], error) { return src, nil },
	})
	var got []object.Delta[settings]
	if _, err := inf.Subscribe(func(d object.Delta[settings]) { got = append(got, d) }, HandlerOptions{}); err != nil {
		t.Fatal(err)
	}
	startIt(t, inf)
	items, src.items = nil, nil // or somebody holds them
	synctest.Wait()
	p := inf.currentParts()[0]
	patched := 0
	for step := range 1500 {
		if step%300 == 0 {
			clear(got)
			got = nil
			runtime.GC()
			time.Sleep(mostFoldedAfter)
			synctest.Wait()
		}
		key := keys[r.IntN(len(keys))]
		was, ok := inf.store.Snapshot().Held(key)
		if !ok {
			t.Fatalf("%v is gone", key)
		}
		if _, open := was.Open(); !open && was.IsPatch() {
			patched++
		}
		next := changed(r, model[key], step)
		var reads settings
		if r.IntN(4) == 0 {
			reads, _ = inf.store.Snapshot().Get(key)
		}
		p.Begin()
		received, err := p.Decode(arriving(t, next))
		if kept := received.State != nil; err != nil || kept != memory.Eager || cmp.Diff(next, received.Object) != "" {
			t.Fatalf("step %d: %v; the encoding is kept: %t; %s", step, err, kept, cmp.Diff(next, received.Object))
		}
		update := object.Delta[settings]{Type: object.Updated, Key: key, Object: received.Object}
		p.Change([]intake.Change[settings]{{Delta: update, State: received.State}}, next.ResourceVersion)
		synctest.Wait()
		checkUpdate(t, got, model[key], next)
		runtime.KeepAlive(reads)
		model[key] = next
	}
	for key, o := range model {
		if have, _ := inf.store.Snapshot().Get(key); cmp.Diff(o, have) != "" {
			t.Fatalf("%v: %s", key, cmp.Diff(o, have))
		}
	}
	if patched < 300 && !memory.Eager {
		t.Errorf("only %d changed objects were folded as patches", patched)
	}
}

// mostFoldedAfter is after which time the rule has folded what nobody reads.
const mostFoldedAfter = 15 * time.Minute

// changed returns a new state of o: a small change, other contents, or another object of the same name.
func changed(r *rand.Rand, o settings, step int) settings {
	next := o.DeepCopy()
	next.ResourceVersion = fmt.Sprint(100 + step)
	switch r.IntN(8) {
	case 0:
		next.Data = map[string]string{"other": fmt.Sprint(r.Uint64())}
	case 1:
		next.UID = types.UID(fmt.Sprint("another-", step))
	default:
		next.Labels = map[string]string{"step": fmt.Sprint(step)}
	}
	return next
}

// checkUpdate checks the latest notifications: an update, or a deletion and an addition if it is another object.
func checkUpdate(t *testing.T, got []object.Delta[settings], was, now settings) {
	t.Helper()
	if len(got) == 0 {
		t.Fatal("the handler was not called")
	}
	last := got[len(got)-1]
	if cmp.Diff(now, last.Object) != "" {
		t.Fatalf("the handler got %s", cmp.Diff(now, last.Object))
	}
	old := last.Old
	if was.UID != now.UID {
		if last.Type != object.Added || len(got) < 2 {
			t.Fatalf("%v for another object", last.Type)
		}
		old = got[len(got)-2].Object
	}
	if cmp.Diff(was, old) != "" {
		t.Fatalf("the old state is %s", cmp.Diff(was, old))
	}
}
