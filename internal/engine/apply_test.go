package engine

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/absent"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
)

// TestBatchIsLikeItsChanges applies random batches twice: together, and one change after the other.
func TestBatchIsLikeItsChanges(t *testing.T) {
	testseed.Each(t, 20, func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		together := New(Config[settings]{Options: Options{Logger: slog.New(slog.DiscardHandler)}})
		single := New(Config[settings]{Options: Options{Logger: slog.New(slog.DiscardHandler)}})
		var gone, alsoGone absent.Deletions
		version := 0
		for range 50 {
			batch := randomBatch(random, &version)
			txn := together.writer.Begin()
			got := (&applying[settings]{txn: txn, deletions: &gone,
				inFlight: new(inFlight[settings])}).changes(changesOf(batch...))
			txn.Commit()

			other := single.writer.Begin()
			a := applying[settings]{txn: other, deletions: &alsoGone, inFlight: new(inFlight[settings])}
			var want []object.Delta[settings]
			for _, d := range batch {
				want = append(want, a.delta(d, nil)...)
			}
			other.Commit()
			if diff := cmp.Diff(want, slices.Clone(got), cmp.Comparer(func(a, b settings) bool { return a == b })); len(want)+len(got) > 0 && diff != "" {
				t.Fatalf("notifications (-want +got):\n%s", diff)
			}
		}
	})
}

// changesOf returns deltas as the reflector passes them on from a source that decodes by itself.
func changesOf(deltas ...object.Delta[settings]) (changes []intake.Change[settings]) {
	for _, d := range deltas {
		changes = append(changes, intake.Change[settings]{Delta: d})
	}
	return changes
}

// randomBatch returns changes of a few objects, which are occasionally recreated, deleted twice, or go back in time.
func randomBatch(random *rand.Rand, version *int) []object.Delta[settings] {
	var batch []object.Delta[settings]
	for range random.IntN(8) {
		*version++
		at := *version
		if random.IntN(8) == 0 {
			at -= random.IntN(10)
		}
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: string(rune('a' + random.IntN(4))), UID: types.UID(rune('u' + random.IntN(3)/2)), ResourceVersion: strconv.Itoa(max(1, at)),
		}}
		d := object.Delta[settings]{Type: object.Updated, Key: object.KeyOf(o), Object: o}
		if random.IntN(4) == 0 {
			d.Type, d.FinalStateUnknown = object.Deleted, random.IntN(2) == 0
		}
		batch = append(batch, d)
	}
	return batch
}

// TestDeletionOfAnUnseenObject: the deleted object is not the one that is held, which must
// therefore have been deleted before.
func TestDeletionOfAnUnseenObject(t *testing.T) {
	for _, tt := range []struct {
		uid     types.UID
		unknown bool // whether the final state of the held object is unknown
	}{{"one", false}, {"other", true}, {"", false}} {
		inf := New(Config[settings]{Options: Options{Logger: slog.New(slog.DiscardHandler)}})
		held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "one", ResourceVersion: "1"}}
		last := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: tt.uid, ResourceVersion: "2"}}
		txn := inf.writer.Begin()
		a := applying[settings]{txn: txn, deletions: &absent.Deletions{}, inFlight: new(inFlight[settings])}
		notes := a.changes(changesOf(
			object.Delta[settings]{Type: object.Added, Key: object.KeyOf(held), Object: held},
			object.Delta[settings]{Type: object.Deleted, Key: object.KeyOf(last), Object: last},
		))
		txn.Commit()
		final := last
		if tt.unknown {
			final = held
		}
		want := object.Delta[settings]{Type: object.Deleted, Key: object.KeyOf(held), Object: final, Old: held, FinalStateUnknown: tt.unknown}
		if len(notes) != 2 || notes[1] != want {
			t.Errorf("uid %q: %+v, want %+v", tt.uid, notes, want)
		}
		if inf.store.Snapshot().Len() != 0 {
			t.Errorf("uid %q: the object is still there", tt.uid)
		}
	}
}

// TestRecreatedObject: an object with another uid is a different object, so the first one was
// deleted; one without a uid may be the same.
func TestRecreatedObject(t *testing.T) {
	for _, tt := range []struct {
		held, uid types.UID
		version   string
		want      []object.DeltaType
	}{
		{"one", "other", "2", []object.DeltaType{object.Deleted, object.Added}}, {"one", "other", "1", []object.DeltaType{object.Deleted, object.Added}},
		{"one", "one", "2", []object.DeltaType{object.Updated}}, {"one", "one", "1", nil}, {"", "other", "2", []object.DeltaType{object.Updated}},
		{"one", "", "2", []object.DeltaType{object.Updated}}, {"", "", "2", []object.DeltaType{object.Updated}}, {"", "other", "1", nil},
	} {
		inf := New(Config[settings]{Options: Options{Logger: slog.New(slog.DiscardHandler)}})
		held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: tt.held, ResourceVersion: "1"}}
		next := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: tt.uid, ResourceVersion: tt.version}}
		txn := inf.writer.Begin()
		a := applying[settings]{txn: txn, deletions: &absent.Deletions{}, inFlight: new(inFlight[settings])}
		a.changes(changesOf(object.Delta[settings]{Type: object.Added, Key: object.KeyOf(held), Object: held}))
		notes := a.changes(changesOf(object.Delta[settings]{Type: object.Updated, Key: object.KeyOf(next),
			Object: next}))
		txn.Commit()
		var got []object.DeltaType
		for _, d := range notes {
			got = append(got, d.Type)
			before := held
			if d.Type == object.Added {
				before = nil
			}
			if d.Type == object.Deleted && (d.Object != held || !d.FinalStateUnknown) || d.Type != object.Deleted && (d.Object != next || d.Old != before) {
				t.Errorf("%+v: %+v", tt, d)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%+v: told of %v", tt, got)
		}
		if now, ok := inf.store.Snapshot().Get(object.Key{Name: "x"}); !ok || (now == next) != (tt.want != nil) {
			t.Errorf("%+v: the store has %v", tt, now)
		}
	}
}

// TestStatesOfASourceThatMayNotNumberThem: repeated and older states are dropped until one version
// comes with two contents.
func TestStatesOfASourceThatMayNotNumberThem(t *testing.T) {
	w := store.NewWriter[settings](store.Options{})
	a := applying[settings]{deletions: &absent.Deletions{}, inFlight: new(inFlight[settings]), compare: true}
	apply := func(version, data string) int {
		a.txn = w.Begin()
		defer a.txn.Commit()
		o := namedSettings(1)
		o.ResourceVersion, o.Data = version, map[string]string{"data": data}
		return len(a.changes(changesOf(object.Delta[settings]{Type: object.Updated, Key: object.KeyOf(o), Object: o})))
	}
	for i, step := range []struct {
		version, data string
		notes         int
	}{
		{"5", "a", 1}, {"6", "b", 1}, {"6", "b", 0}, {"5", "a", 0}, {"7", "b", 1}, {"7", "b", 0},
		{"7", "c", 1}, {"7", "c", 0}, {"1", "d", 1}, {"1", "e", 1},
	} {
		if got := apply(step.version, step.data); got != step.notes {
			t.Errorf("step %d, %s at %s: %d notifications, want %d", i, step.data, step.version, got, step.notes)
		}
	}
}
