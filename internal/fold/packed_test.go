package fold

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"
	"weak"
)

// trained returns a packer that has a dictionary for the objects, and the objects packed with it.
func trained(t testing.TB, objects [][]byte) (*Packer, []Packed) {
	t.Helper()
	p := &Packer{}
	packed := p.PackAll(objects)
	if packed[0].Dictionary() == nil {
		t.Fatal("the objects got no dictionary")
	}
	return p, packed
}

func TestZeroHoldsNothing(t *testing.T) {
	var zero Packed
	if _, err := zero.Open(nil); !zero.IsZero() || !errors.Is(err, ErrCorrupt) {
		t.Errorf("the zero value opens with the error %v", err)
	}
	if err := zero.View(func([]byte) error { t.Error("View called its function"); return nil }); !errors.Is(err, ErrCorrupt) {
		t.Errorf("View of the zero value returns %v", err)
	}
}

func TestViewReturnsTheErrorOfItsFunction(t *testing.T) {
	want := errors.New("the reader's own")
	object := new(Packer).Pack([]byte("anything"), nil)
	if err := object.View(func([]byte) error { return want }); err != want {
		t.Errorf("View returns %v", err)
	}
}

func TestViewsInsideViews(t *testing.T) {
	objects := corpora[0].make(t, 200, 1)
	_, packed := trained(t, objects)
	var nest func(i int) error
	nest = func(i int) error {
		return packed[i].View(func(data []byte) error {
			if i > 0 {
				if err := nest(i - 1); err != nil {
					return err
				}
			}
			if !bytes.Equal(data, objects[i]) {
				t.Errorf("the bytes of view %d have changed", i)
			}
			return nil
		})
	}
	if err := nest(20); err != nil {
		t.Fatal(err)
	}
}

// TestBrokenBytes flips each bit of packed objects, and truncates them at each length. They open to
// nothing but the original: a reference to an equal place elsewhere may be harmless.
func TestBrokenBytes(t *testing.T) {
	objects := corpora[0].make(t, 200, 1)
	_, withDictionary := trained(t, objects)
	short := new(Packer).Pack([]byte("short"), nil)
	for _, object := range []Packed{withDictionary[7], new(Packer).Pack(objects[7], nil), short} {
		whole := object.Bytes()
		for n := range whole {
			mustNotDiffer(t, object, whole[:n])
			for bit := range 8 {
				broken := bytes.Clone(whole)
				broken[n] ^= 1 << bit
				mustNotDiffer(t, object, broken)
			}
		}
	}
}

// mustNotDiffer fails the test if the broken bytes open to anything but the object.
func mustNotDiffer(t *testing.T, object Packed, data []byte) {
	t.Helper()
	want, err := object.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	broken, err := FromBytes(object.Dictionary(), data)
	if err == nil {
		got, err = broken.Open(nil)
	}
	if err != nil && !errors.Is(err, ErrCorrupt) || err == nil && !bytes.Equal(got, want) {
		t.Fatalf("broken bytes %x… open to %d bytes with the error %v", data[:min(len(data), 8)], len(got), err)
	}
}

func mustNotOpen(t *testing.T, dict *Dictionary, data []byte) {
	t.Helper()
	object, err := FromBytes(dict, data)
	if err == nil {
		_, err = object.Open(nil)
	}
	if !errors.Is(err, ErrCorrupt) {
		t.Fatalf("bytes %x… open with the error %v", data[:min(len(data), 8)], err)
	}
}

func TestOtherDictionary(t *testing.T) {
	_, packed := trained(t, corpora[0].make(t, 200, 1))
	_, others := trained(t, corpora[0].make(t, 200, 2))
	object := Packed{dict: others[0].dict, data: packed[0].data}
	if _, err := object.Open(nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("an object opens with another dictionary than its own: %v", err)
	}
	mustNotOpen(t, nil, packed[0].Bytes())
	mustNotOpen(t, others[0].dict, new(Packer).Pack([]byte("short"), nil).Bytes())
}

func TestClaimOfTooMuch(t *testing.T) {
	block := binary.AppendUvarint(nil, MaxOpened+1)
	mustNotOpen(t, nil, append([]byte{formBlock, 0, 0, 0, 0}, block...))
}

func TestLargeObjects(t *testing.T) {
	var p Packer
	for _, n := range []int{1 << 20, MaxOpened, MaxOpened + 1} {
		data := bytes.Repeat([]byte("0123456789abcdef"), n/16+1)[:n]
		object := p.Pack(data, nil)
		mustOpen(t, object, data)
		if packed := object.Size() < n/10; packed != (n <= MaxOpened) {
			t.Errorf("%d bytes are packed: %t", n, packed)
		}
	}
}

func TestDictionaryBytes(t *testing.T) {
	_, packed := trained(t, corpora[0].make(t, 200, 1))
	d := packed[0].Dictionary()
	again, err := ParseDictionary(d.AppendTo(nil))
	if err != nil {
		t.Fatal(err)
	}
	object, err := FromBytes(again, packed[9].Bytes())
	if err != nil {
		t.Fatal(err)
	}
	want, _ := packed[9].Open(nil)
	mustOpen(t, object, want)
	for _, bad := range [][]byte{nil, {1}, make([]byte, 10), {0xfe, 0xff, 30: 0}, append([]byte{0xff, 0xff}, make([]byte, maxTemplate+1)...), make([]byte, 2+MaxDictionary+1)} {
		if _, err := ParseDictionary(bad); err == nil {
			t.Errorf("%d bytes are a dictionary", len(bad))
		}
	}
}

// TestDictionariesAreFreed drops all objects of a dictionary that is no longer current.
func TestDictionariesAreFreed(t *testing.T) {
	p, packed := trained(t, corpora[0].make(t, 200, 1))
	old := weak.Make(packed[0].Dictionary())
	p.PackAll(corpora[2].make(t, 2000, 1)) // outgrows it
	if p.current.dict == old.Value() {
		t.Fatal("the dictionary is still the current one")
	}
	for i, object := range packed {
		if i != 100 {
			p.Release(object)
		}
	}
	runtime.GC()
	held := packed[100]
	packed = nil
	if old.Value() == nil {
		t.Fatal("a dictionary was freed that an object needs")
	}
	p.Release(held)
	if _, err := held.Open(nil); err != nil {
		t.Errorf("a released object that is still held: %v", err)
	}
	runtime.KeepAlive(held)
	held = Packed{}
	p.training.samples = reservoir{}
	runtime.GC()
	if old.Value() != nil {
		t.Error("a dictionary that nothing needs is still in memory")
	}
}
