package share

import (
	"math/rand/v2"
	"testing"
)

// TestTableAgainstModel compares a table with a Go map: what it finds is what was added last, and its memory is bounded.
func TestTableAgainstModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	type key struct {
		hash  uint64
		shape uint32
	}
	const limit = 1 << 20
	table, model := NewTable[uint64](limit), map[key]uint64{}
	hits := 0
	for range 200_000 {
		k := key{rng.Uint64N(20_000) * mixer, uint32(rng.IntN(3))}
		switch e := table.Find(k.hash, k.shape); {
		case e == nil:
			model[k] = rng.Uint64()
			table.Add(Entry[uint64]{Hash: k.hash, Shape: k.shape, Value: model[k], Cost: uint32(rng.IntN(200))})
		case e.Value != model[k]:
			t.Fatalf("seed %d: found %d, want %d", seed, e.Value, model[k])
		case rng.IntN(10) == 0:
			table.Drop(e)
			if table.Find(k.hash, k.shape) != nil {
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

// TestTableForgets: what is no longer used goes, and what is stays.
func TestTableForgets(t *testing.T) {
	i := uint64(7)
	seven := i * mixer
	table := NewTable[int](0)
	for i := range 1000 {
		table.Add(Entry[int]{Hash: uint64(i) * mixer, Value: i})
	}
	for range 2 * SweepEvery {
		table.Use(table.Find(seven, 0))
		table.Decoded()
	}
	if e := table.Find(seven, 0); table.Len() != 1 || e == nil || e.Value != 7 {
		t.Errorf("%d entries are left, %v", table.Len(), e)
	}
}

func TestTableChecksOncePerBatch(t *testing.T) {
	table := NewTable[int](0)
	table.Add(Entry[int]{Hash: 1})
	e := table.Find(1, 0)
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
	table := NewTable[int](0)
	seen := 0
	for i := range uint64(1000) {
		if table.SeenBefore(i * mixer) {
			t.Fatal("seen before the first time")
		}
		if table.SeenBefore(i * mixer) {
			seen++
		}
	}
	if seen < 990 { // some are forgotten when there is more room
		t.Errorf("%d of 1000 were remembered", seen)
	}
	for i := range uint64(10 * MaxDoor) {
		table.SeenBefore(i * mixer)
	}
	if table.Bytes() > 4*MaxDoor {
		t.Errorf("%d bytes", table.Bytes())
	}
}
