package deaf

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/bench/internal/engine"
)

func run(t *testing.T, name engine.Name, schedule Schedule) (got Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if got, err = Run(t.Context(), name, schedule); err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", got)
	})
	return got
}

func TestNothingGoesWrong(t *testing.T) {
	for _, name := range engine.Both {
		t.Run(string(name), func(t *testing.T) {
			got := run(t, name, Schedule{Lasts: time.Hour})
			if got.Faults != 0 || got.Up != time.Hour || got.Deaf > time.Minute {
				t.Errorf("got %+v, want an hour without a fault", got)
			}
		})
	}
}

// TestBooks checks what the simulation says of engines that are known to come back, whatever they wait before.
func TestBooks(t *testing.T) {
	for _, name := range engine.Both {
		t.Run(string(name), func(t *testing.T) {
			t.Run("cut", func(t *testing.T) {
				got := run(t, name, CutEvery(time.Minute, 20*time.Minute))
				// A watch is cut a minute after it was opened, so that waiting makes the cuts fewer.
				if got.Faults < 10 || got.Faults > 20 || got.CameBack < got.Faults-1 || got.Up != 20*time.Minute || got.Deaf >= got.Up || got.Longest > got.Deaf {
					t.Errorf("got %+v", got)
				}
			})
			t.Run("down", func(t *testing.T) {
				got := run(t, name, Schedule{Lasts: 10 * time.Minute, Faults: []Fault{{At: time.Minute, Lasts: 2 * time.Minute, Kind: Refused}}})
				if got.Faults != 1 || got.CameBack != 1 || got.Up != 8*time.Minute || got.Deaf <= 0 || got.Deaf > 3*time.Minute {
					t.Errorf("got %+v, want one fault of two minutes, and that the informer came back", got)
				}
			})
		})
	}
}

// TestEveryFault lets each kind of fault happen alone. An informer that does not come back within
// minutes would not do so in the random schedule either.
func TestEveryFault(t *testing.T) {
	for _, name := range engine.Both {
		for _, kind := range slices.Concat(momentary, lasting) {
			t.Run(string(name)+"/"+string(kind), func(t *testing.T) {
				f := Fault{At: time.Minute, Kind: kind}
				if slices.Contains(lasting, kind) {
					f.Lasts = 5 * time.Second
				}
				if got := run(t, name, Schedule{Lasts: 5 * time.Minute, Faults: []Fault{f}}); got.Faults != 1 || got.CameBack != 1 {
					t.Errorf("got %+v, want that the informer came back", got)
				}
			})
		}
	}
}

func TestRandomScheduleRepeats(t *testing.T) {
	first, again, other := Random(1, time.Hour), Random(1, time.Hour), Random(2, time.Hour)
	if !slices.Equal(first.Faults, again.Faults) || slices.Equal(first.Faults, other.Faults) {
		t.Error("a seed does not stand for one schedule")
	}
	kinds := map[Kind]bool{}
	for i, f := range first.Faults {
		kinds[f.Kind] = true
		if i > 0 && f.At < first.Faults[i-1].At+first.Faults[i-1].Lasts {
			t.Errorf("fault %d begins at %v, before the one before is over", i, f.At)
		}
	}
	if len(kinds) != len(momentary)+len(lasting) {
		t.Errorf("an hour has the kinds %v only", kinds)
	}
}
