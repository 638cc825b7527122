package fold

import (
	"bytes"
	"runtime"
	"sync"
	"testing"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// TestSmallCollections hold nothing but their objects, no matter how often these change.
func TestSmallCollections(t *testing.T) {
	var p Packer
	objects := corpora[0].make(t, 10, 1)
	packed := make([]Packed, len(objects))
	for i := range 20_000 {
		n := i % len(objects)
		if !packed[n].IsZero() {
			p.Release(packed[n])
		}
		packed[n] = p.Pack(objects[n], packed[n].Dictionary())
	}
	if s := p.Stats(); s.Bytes() != s.HeapBytes || s.Trainings != 0 || s.PackedBytes > s.OpenedBytes*7/10 {
		t.Errorf("a collection of ten takes %+v", s)
	}
}

func TestIncompressibleCollection(t *testing.T) {
	var p Packer
	r := testseed.Rand(t)
	for range 5000 {
		p.Pack(randomBytes(r, 1000), nil)
	}
	if s := p.Stats(); s.Raw != s.Objects || s.Dictionaries != 0 || s.Stale != 0 {
		t.Errorf("random bytes take %+v", s)
	}
}

// TestTinyObjectsNeedTheDictionary packs objects that s2 alone cannot shrink: the first ones are
// stale once there is a dictionary.
func TestTinyObjectsNeedTheDictionary(t *testing.T) {
	var p Packer
	objects := corpora[6].make(t, 5000, 1)
	var packed []Packed
	for _, data := range objects {
		packed = append(packed, p.Pack(data, nil))
	}
	before := p.Stats()
	if before.Stale == 0 || before.Stale > 2000 {
		t.Errorf("%d of 5000 are stale", before.Stale)
	}
	for i, object := range packed {
		if p.Stale(object) {
			p.Release(object)
			packed[i] = p.Pack(objects[i], nil)
		}
		mustOpen(t, packed[i], objects[i])
	}
	if s := p.Stats(); s.Stale != 0 || s.PackedBytes > before.PackedBytes || s.PackedBytes > s.OpenedBytes*6/10 {
		t.Errorf("packed again they take %+v", s)
	}
}

// TestCollectionThatChangesItsKind gets a new dictionary long before everything was repacked.
func TestCollectionThatChangesItsKind(t *testing.T) {
	var p Packer
	for _, data := range corpora[0].make(t, 3000, 1) {
		p.Pack(data, nil)
	}
	had := p.Stats()
	next := corpora[2].make(t, 1000, 2)
	for _, data := range next[:800] {
		p.Pack(data, nil)
	}
	s := p.Stats()
	if s.Trainings == had.Trainings {
		t.Fatalf("no dictionary was trained for the new kind; before %+v, after %+v", had, s)
	}
	size, opened := 0, 0
	for _, data := range next[800:] {
		size, opened = size+p.Pack(data, nil).Size(), opened+len(data)
	}
	if size > opened/4 {
		t.Errorf("objects of the new kind take %d of %d bytes", size, opened)
	}
}

// TestNeighborsPackBetter packs a list in batches and one by one.
func TestNeighborsPackBetter(t *testing.T) {
	const n = 2000
	objects := corpora[0].make(t, n, 1)
	var single, batches Packer
	for _, data := range objects {
		single.Pack(data, nil)
	}
	packed := packAll(&batches, objects)
	a, b := single.Stats().Bytes(), batches.Stats().Bytes()
	t.Logf("%d bytes an object one by one, %d in batches", a/n, b/n)
	if b > a*9/10 {
		t.Errorf("batches take %d bytes, single objects %d", b, a)
	}
	for i, object := range packed {
		mustOpen(t, object, objects[i])
	}
	i := 1234
	batches.Release(packed[i])
	again := batches.Pack(objects[i], packed[i].Dictionary())
	if again.Dictionary() != packed[i].Dictionary() {
		t.Error("an object that resembles its earlier version gets another dictionary")
	}
}

// TestLikeThatServesBadly packs an object with the dictionary of one that it does not resemble.
func TestLikeThatServesBadly(t *testing.T) {
	var p Packer
	leases, pods := corpora[6].make(t, 5000, 1), corpora[0].make(t, 2000, 1)
	like := packAll(&p, leases)[4999].Dictionary()
	packAll(&p, pods)
	if like == nil || like == p.current.dict {
		t.Fatal("the leases have no dictionary of their own")
	}
	bad, good := p.Pack(pods[1999], like), p.Pack(pods[1999], nil)
	if bad.Size() != good.Size() || bad.Dictionary() != good.Dictionary() {
		t.Errorf("a pod that resembles a lease takes %d bytes, one that resembles none %d", bad.Size(), good.Size())
	}
}

func TestAdopt(t *testing.T) {
	objects := corpora[0].make(t, 500, 1)
	_, packed := trained(t, objects)
	var p Packer
	for _, object := range packed {
		p.Adopt(object)
	}
	s := p.Stats()
	if s.Objects != 500 || s.Dictionaries != 1 || s.Stale != 0 {
		t.Errorf("500 adopted objects are %+v", s)
	}
	if got := p.Pack(objects[3], nil); got.Dictionary() != packed[0].Dictionary() {
		t.Error("the packer does not go on with the dictionary it got")
	}
}

func TestPackKeepsNoReference(t *testing.T) {
	for _, n := range []int{10, 1000} {
		data := bytes.Repeat([]byte{'a'}, n)
		object := new(Packer).Pack(data, nil)
		clear(data)
		mustOpen(t, object, bytes.Repeat([]byte{'a'}, n))
	}
}

// TestReadersBesideTheWriter opens objects in several goroutines while they are repacked with new dictionaries.
func TestReadersBesideTheWriter(t *testing.T) {
	var p Packer
	objects := corpora[0].make(t, 400, 1)
	packed := make(chan []Packed, 1)
	packed <- p.PackAll(objects)
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				case now := <-packed:
					packed <- now
					openEach(t, now, objects)
				}
			}
		})
	}
	for range 8 {
		next := p.PackAll(objects)
		old := <-packed
		packed <- next
		for _, object := range old {
			p.Release(object)
		}
		p.Stats()
	}
	close(done)
	readers.Wait()
}

func openEach(t *testing.T, packed []Packed, want [][]byte) {
	for i, object := range packed {
		err := object.View(func(data []byte) error {
			if !bytes.Equal(data, want[i]) {
				t.Errorf("object %d opens to something else", i)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestStatsTellTheHeap compares Stats with the growth of the heap.
func TestStatsTellTheHeap(t *testing.T) {
	objects := corpora[0].make(t, 2500, 1)
	before := wiretest.LiveHeap()
	var p Packer
	packed := packAll(&p, objects)
	grown := wiretest.LiveHeap() - before
	s := p.Stats()
	counted := s.Bytes() + int64(cap(packed))*24
	t.Logf("the heap has grown by %d, counted are %d", grown, counted)
	if grown > counted*115/100 || grown < counted*9/10 {
		t.Errorf("the heap has grown by %d bytes, counted are %d", grown, counted)
	}
	runtime.KeepAlive(packed)
	runtime.KeepAlive(objects)
}
