package share

import (
	"math/rand/v2"
	"testing"

	"github.com/tidings/tidings/internal/testseed"
)

// TestTableAgainstModel compares a table with a Go map: it finds what was added last, and its memory is bounded.
func TestTableAgainstModel(t *testing.T) {
	seed := testseed.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	const limit = 1 << 20
	table, model := NewTable[uint64](limit, 1000), map[uint64]uint64{}
	hits := 0
	for range 200_000 {
		k := rng.Uint64N(50_000) * mixer
		switch e := table.Find(k); {
		case e == nil:
			model[k] = rng.Uint64()
			table.Add(Entry[uint64]{Hash: k, Value: model[k], Cost: uint32(rng.IntN(200))})
		case e.Value != model[k]:
			t.Fatalf("seed %d: found %d, want %d", seed, e.Value, model[k])
		case rng.IntN(10) == 0:
			table.Drop(e)
			if table.Find(k) != nil {
				t.Fatalf("seed %d: a dropped value was found", seed)
			}
		default:
			hits++
			table.Use(e)
		}
		if table.Bytes() > limit {
			t.Fatalf("seed %d: %d bytes", seed, table.Bytes())
		}
	}
	if hits == 0 {
		t.Error("nothing was ever found")
	}
}

const mixer = uint64(0x9e3779b97f4a7c15)

// TestTableForgets: unused entries are dropped, used ones stay.
func TestTableForgets(t *testing.T) {
	const sweepEvery = 100
	seven := rand.Uint64()
	table := NewTable[int](0, sweepEvery)
	table.Add(Entry[int]{Hash: seven, Value: 7})
	for range 1000 {
		table.Add(Entry[int]{Hash: rand.Uint64()})
	}
	for range 2 * sweepEvery {
		table.Use(table.Find(seven))
		table.Decoded()
	}
	if e := table.Find(seven); table.Len() != 1 || e == nil || e.Value != 7 {
		t.Errorf("%d entries are left, %v", table.Len(), e)
	}
}

func TestTableChecksOncePerBatch(t *testing.T) {
	table := NewTable[int](0, 100)
	table.Add(Entry[int]{Hash: 1})
	e := table.Find(1)
	if !table.IsChecked(e) {
		t.Error("a new value is to be checked")
	}
	table.BeginBatch()
	if table.IsChecked(e) {
		t.Error("a value was checked before the batch began")
	}
	table.Checked(e)
	if !table.IsChecked(e) {
		t.Error("a checked value is to be checked again")
	}
}

func TestSeenBefore(t *testing.T) {
	table := NewTable[int](0, 100)
	seen := 0
	for i := range uint64(1000) {
		if table.SeenBefore(i * mixer) {
			t.Fatal("seen before the first time")
		}
		if table.SeenBefore(i * mixer) {
			seen++
		}
	}
	if seen < 990 { // some are forgotten when the doorkeeper grows
		t.Errorf("%d of 1000 were remembered", seen)
	}
	small := NewTable[int](100_000, 100)
	for i := range uint64(10 * MaxDoor) {
		table.SeenBefore(i * mixer)
		small.SeenBefore(i * mixer)
	}
	if table.Bytes() > 4*MaxDoor {
		t.Errorf("%d bytes", table.Bytes())
	}
	if small.Bytes() > 100_000/doorShare {
		t.Errorf("%d bytes of a small table", small.Bytes())
	}
}
