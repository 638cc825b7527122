package fold

import (
	"math/rand/v2"
	"testing"

	"github.com/tidings/tidings/internal/testseed"
)

// collection is a Packer beside a plain copy of what it packed.
type collection struct {
	t       *testing.T
	rand    *rand.Rand
	packer  Packer
	opened  [][]byte
	packed  []Packed
	dropped []Packed // released, but somebody still holds them
	was     [][]byte // what the dropped ones open to
}

func (c *collection) add(data []byte, packed Packed) {
	c.opened, c.packed = append(c.opened, data), append(c.packed, packed)
}

// drop releases the i-th object, and puts the last one in its place.
func (c *collection) drop(i int) {
	c.packer.Release(c.packed[i])
	if c.rand.IntN(50) == 0 {
		c.dropped, c.was = append(c.dropped, c.packed[i]), append(c.was, c.opened[i])
	}
	last := len(c.packed) - 1
	c.packed[i], c.opened[i] = c.packed[last], c.opened[last]
	c.packed, c.opened = c.packed[:last], c.opened[:last]
}

// step does one random thing.
func (c *collection) step(real [][]byte) {
	switch n := c.rand.IntN(100); {
	case n < 2:
		batch := make([][]byte, c.rand.IntN(200))
		for i := range batch {
			batch[i] = real[c.rand.IntN(len(real))]
		}
		for i, packed := range c.packer.PackAll(batch) {
			c.add(batch[i], packed)
		}
	case n == 2 && len(c.packed) > 0:
		from := c.rand.IntN(len(c.packed))
		to := from + c.rand.IntN(min(200, len(c.packed)-from))
		for i, packed := range c.packer.PackSmaller(c.opened[from:to], c.packed[from:to]) {
			c.packer.Release(c.packed[from+i])
			c.packed[from+i] = packed
		}
	case n < 4 && c.rand.IntN(10) == 0:
		for range c.rand.IntN(len(c.packed) + 1) {
			c.drop(c.rand.IntN(len(c.packed)))
		}
	case n < 50 || len(c.packed) == 0:
		data := randomObject(c.rand, real)
		c.add(data, c.packer.Pack(data, nil))
	default:
		i := c.rand.IntN(len(c.packed))
		like := c.packed[i].Dictionary()
		c.drop(i)
		data := real[c.rand.IntN(len(real))]
		c.add(data, c.packer.Pack(data, like))
	}
}

// check compares all with the plain copy.
func (c *collection) check() {
	c.t.Helper()
	want := Stats{Objects: len(c.packed)}
	for i, packed := range c.packed {
		mustOpen(c.t, packed, c.opened[i])
		want.OpenedBytes += int64(len(c.opened[i]))
		want.PackedBytes += int64(packed.Size())
		if packed.Size() == headerSize+packed.Len() && packed.Dictionary() == nil && !packed.is(formAlone) {
			want.Raw++
		}
		if c.packer.Stale(packed) {
			want.Stale++
		}
	}
	for i, packed := range c.dropped {
		mustOpen(c.t, packed, c.was[i])
	}
	got := c.packer.Stats()
	if got.Objects != want.Objects || got.OpenedBytes != want.OpenedBytes || got.PackedBytes != want.PackedBytes ||
		got.Raw != want.Raw || got.Stale != want.Stale {
		c.t.Fatalf("Stats are %+v, want %+v", got, want)
	}
	c.checkDictionaries(got)
}

// checkDictionaries counts the dictionaries that the objects need.
func (c *collection) checkDictionaries(got Stats) {
	c.t.Helper()
	need := map[*Dictionary]bool{}
	bytes := int64(0)
	for _, packed := range c.packed {
		if d := packed.Dictionary(); d != nil && !need[d] {
			need[d] = true
			bytes += int64(d.Size())
		}
	}
	if u := c.packer.current; u != nil && !need[u.dict] {
		need[u.dict] = true
		bytes += int64(u.dict.Size())
	}
	if got.Dictionaries != len(need) || got.DictionaryBytes != bytes {
		c.t.Fatalf("%d dictionaries of %d bytes are counted, there are %d of %d", got.Dictionaries, got.DictionaryBytes, len(need), bytes)
	}
}

// TestRandomOperations packs, releases and packs again objects of kinds that change all the time.
func TestRandomOperations(t *testing.T) {
	c := &collection{t: t, rand: testseed.Rand(t)}
	trainings := 0
	for range 6 {
		real := corpora[c.rand.IntN(len(corpora))].make(t, 300, c.rand.Uint64())
		for range 600 {
			c.step(real)
		}
		c.check()
		trainings = c.packer.Stats().Trainings
	}
	if trainings < 2 {
		t.Errorf("only %d dictionaries were trained: the test does not test what it should", trainings)
	}
	for len(c.packed) > 0 {
		c.drop(0)
	}
	c.check()
	if s := c.packer.Stats(); s.Dictionaries > 1 {
		t.Errorf("an empty collection has %d dictionaries", s.Dictionaries)
	}
}
