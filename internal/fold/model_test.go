package fold

import (
	"math/rand/v2"
	"testing"

	"github.com/tidings/tidings/internal/testseed"
)

// collection is a Packer with a plain copy of what it packed.
type collection struct {
	t       *testing.T
	rand    *rand.Rand
	packer  Packer
	opened  [][]byte
	packed  []Packed
	dropped []Packed // released, but still held
	was     [][]byte // what the dropped ones open to
	// templates are those that existed when the collection was last checked.
	templates map[*Dictionary]bool
}

func (c *collection) add(data []byte, packed Packed) {
	c.opened, c.packed = append(c.opened, data), append(c.packed, packed)
}

// drop releases the i-th object, and moves the last one to its place.
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
		batch := randomBatch(c.rand, real)
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
	case n == 3 && c.rand.IntN(4) == 0:
		c.adopt(randomBatch(c.rand, real))
	case n == 4 && c.packer.differ != nil && len(c.packed) > 0:
		c.adoptPatches(randomBatch(c.rand, real))
	case n < 6 && c.rand.IntN(10) == 0:
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

// adopt packs objects elsewhere, and adopts some of them.
func (c *collection) adopt(batch [][]byte) {
	var elsewhere Packer
	elsewhere.SetDiffer(c.packer.differ)
	for i, packed := range elsewhere.PackAll(batch) {
		if c.rand.IntN(3) > 0 {
			c.packer.Adopt(packed)
			c.add(batch[i], packed)
		}
	}
}

// adoptPatches makes patches of a template that may be registered, and of some that are not.
func (c *collection) adoptPatches(batch [][]byte) {
	patches, template := make([]Packed, len(batch)), c.packed[c.rand.IntN(len(c.packed))].Dictionary()
	for i, data := range batch {
		ok := false
		if template != nil {
			patches[i], ok = template.Patch(c.packer.differ, data)
		}
		if !ok {
			template = NewTemplate(data)
		}
	}
	for i, adopted := range c.packer.AdoptPatches(patches) {
		if adopted {
			c.add(batch[i], patches[i])
		}
	}
}

// packStaleAgain repacks stale objects, with the dictionary of any other.
func (c *collection) packStaleAgain() {
	for i, old := range c.packed {
		if !c.packer.Stale(old) {
			continue
		}
		c.packed[i] = c.packer.Pack(c.opened[i], c.packed[c.rand.IntN(len(c.packed))].Dictionary())
		c.packer.Release(old)
	}
}

// check compares everything with the plain copy.
func (c *collection) check() {
	c.t.Helper()
	want := Stats{Objects: len(c.packed)}
	if c.templates == nil {
		c.templates = map[*Dictionary]bool{}
	}
	for i, packed := range c.packed {
		mustOpen(c.t, packed, c.opened[i])
		if d := packed.Dictionary(); d != nil && d.IsTemplate() {
			c.templates[d] = true
		}
		want.OpenedBytes += int64(len(c.opened[i]))
		want.PackedBytes += int64(packed.Size())
		want.HeapBytes += int64(packed.HeapSize())
		if packed.Size() == headerSize+packed.Len() && packed.Dictionary() == nil && !packed.is(formBlock) {
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
		got.HeapBytes != want.HeapBytes || got.Raw != want.Raw || got.Stale != want.Stale {
		c.t.Fatalf("Stats are %+v, want %+v", got, want)
	}
	c.checkDictionaries(got)
}

// checkDictionaries counts the dictionaries that the objects need.
func (c *collection) checkDictionaries(got Stats) {
	c.t.Helper()
	need := map[*Dictionary]bool{}
	bytes, stale := int64(0), int64(0)
	for _, packed := range c.packed {
		if d := packed.Dictionary(); d != nil && !need[d] {
			need[d] = true
			bytes += int64(d.Size())
			if c.packer.Stale(packed) {
				stale += int64(d.Size())
			}
		}
	}
	if u := c.packer.current; u != nil && !need[u.dict] {
		need[u.dict] = true
		bytes += int64(u.dict.Size())
	}
	if got.StaleBytes != stale {
		c.t.Fatalf("%d bytes of dictionaries are stale, want %d", got.StaleBytes, stale)
	}
	if got.Dictionaries != len(need) || got.DictionaryBytes != bytes {
		c.t.Fatalf("%d dictionaries of %d bytes are counted, there are %d of %d", got.Dictionaries, got.DictionaryBytes, len(need), bytes)
	}
}

// TestRandomOperations packs, releases and repacks objects of kinds that keep changing.
func TestRandomOperations(t *testing.T) {
	c := &collection{t: t, rand: testseed.Rand(t)}
	c.run(6, func() int { return c.rand.IntN(len(corpora)) })
	if trainings := c.packer.Stats().Trainings; trainings < 2 {
		t.Errorf("only %d dictionaries were trained: the test does not test what it should", trainings)
	}
}

// TestRandomOperationsWithPatches is TestRandomOperations with many objects that are patches.
func TestRandomOperationsWithPatches(t *testing.T) {
	c := &collection{t: t, rand: testseed.Rand(t)}
	c.packer.SetDiffer(podDiffer(t))
	first := ofOwner(t, 40)
	for i, packed := range c.packer.PackAll(first) {
		c.add(first[i], packed)
	}
	if c.check(); len(c.templates) == 0 {
		t.Errorf("there is no template: the test does not test what it should")
	}
	c.run(3, func() int { return c.rand.IntN(4) * c.rand.IntN(2) }) // mostly pods
}

// run runs random operations with a sequence of kinds of objects, and finally releases all.
func (c *collection) run(kinds int, kind func() int) {
	for range kinds {
		real := corpora[kind()].make(c.t, 300, c.rand.Uint64())
		for range 600 {
			c.step(real)
		}
		c.check()
		c.packStaleAgain() // the next check verifies it
	}
	for len(c.packed) > 0 {
		c.drop(0)
	}
	c.check()
	if s := c.packer.Stats(); s.Dictionaries > 1 {
		c.t.Errorf("an empty collection has %d dictionaries", s.Dictionaries)
	}
	if p := &c.packer.templates; len(p.objects) > 0 || p.last != nil || p.bytes != 0 || p.staleBytes != 0 || p.staleObjects != 0 {
		c.t.Errorf("an empty collection has the templates %+v", p)
	}
}
