package store

import (
	"reflect"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/object"
)

// TestPackedElsewhere holds objects packed elsewhere: each key has its own, and the same one each time.
func TestPackedElsewhere(t *testing.T) {
	w := NewWriter[*thing](Options{})
	w.UseCodec(thingCodec{}, reflect.TypeFor[*thing]())
	g := w.Store().Gather(100)
	var packer fold.Packer
	for i := range 100 {
		o := plainThing(i)
		data, err := thingCodec{}.Append(nil, o)
		if err != nil {
			t.Fatal(err)
		}
		g.AddPacked(object.KeyOf(o), o.UID, o.ResourceVersion, packer.Pack(data, nil))
	}
	txn := w.Begin()
	txn.Replace("", g, "100", false)
	now := txn.Commit()
	held := map[object.Key]*thing{}
	for k, o := range now.All() {
		held[k] = o
	}
	for k, o := range held {
		if got, ok := now.Get(k); !ok || got != o || object.KeyOf(got) != k {
			t.Fatalf("%v: got %v, which is not the one that is held", k, object.KeyOf(got))
		}
	}
	runtime.KeepAlive(held)
}

// TestOpenedForgetsByItself opens many objects, few of which are held: after a garbage collection
// these are found, and hardly any of the others take memory. That goes on while somebody has the
// table.
func TestOpenedForgetsByItself(t *testing.T) {
	o := new(opened)
	for range 3 {
		held := map[uint64]*thing{}
		for i := range 5_000 {
			one, n := plainThing(i%10), o.number()
			if o.put(n, unsafe.Pointer(one)) != unsafe.Pointer(one) {
				t.Fatal("another object has the number already")
			}
			if i%100 == 0 {
				held[n] = one
			}
		}
		collectUntil(t, func() bool { return o.bytes() <= int64(len(held)+len(o.shards)*minOpened)*openedBytes })
		for n, one := range held {
			if o.get(n) != unsafe.Pointer(one) || o.put(n, unsafe.Pointer(plainThing(1))) != unsafe.Pointer(one) {
				t.Fatal("what somebody holds was forgotten")
			}
		}
	}
	gone := make(chan struct{})
	runtime.AddCleanup(o, func(gone chan struct{}) { close(gone) }, gone)
	o.put(o.number(), unsafe.Pointer(plainThing(1)))
	o = nil
	collectUntil(t, func() bool {
		select {
		case <-gone:
			return true
		default:
			return false
		}
	})
}

// collectUntil collects garbage until done.
func collectUntil(t *testing.T, done func() bool) {
	t.Helper()
	for range 1000 {
		if runtime.GC(); done() {
			return
		}
		runtime.Gosched()
	}
	t.Fatal("garbage collections change nothing")
}

// TestOpenedIsTidied: unheld objects are dropped if there are many, held ones stay, and a map takes
// less room when few of many are left.
func TestOpenedIsTidied(t *testing.T) {
	for _, tt := range []struct {
		name           string
		objects, holds int // one in so many is held
		drops, shrinks bool
	}{
		{"few are held", 64 * minOpened, 10, true, true}, {"half are held", 64 * minOpened, 2, true, false}, {"nearly all are held", 64 * minOpened, 1, true, false},
		{"there are few", 2 * minOpened, 10, false, false},
	} {
		var o opened
		o.scheduled.Store(true) // nobody else tidies
		objects := make([]*[64]byte, tt.objects)
		numbers := make([]uint64, tt.objects)
		for i := range objects {
			objects[i], numbers[i] = new([64]byte), o.number()
			o.put(numbers[i], unsafe.Pointer(objects[i]))
		}
		most, held := 0, 0
		for i := range o.shards {
			most = max(most, o.shards[i].most)
		}
		for i := range objects {
			if i/16%tt.holds != 0 || i < 16 { // those of all shards
				objects[i] = nil
			} else {
				held++
			}
		}
		runtime.GC()
		o.tidy()
		want := int64(tt.objects)
		if tt.drops {
			want = int64(held)
		}
		if n := o.count.Load(); n != want {
			t.Errorf("%s: %d places are taken, want %d", tt.name, n, want)
		}
		for i := range o.shards {
			if s := &o.shards[i]; (s.most < most) != tt.shrinks || s.most < len(s.objects) {
				t.Errorf("%s: a shard of %d objects has room for %d, and had room for %d", tt.name, len(s.objects), s.most, most)
			}
		}
		for i, object := range objects {
			if o.get(numbers[i]) != unsafe.Pointer(object) {
				t.Errorf("%s: the %d-th of which %d are held is another object", tt.name, i, held)
			}
		}
	}
}

// TestOpenedByMany: while goroutines put, get and tidy, and garbage is collected, each finds the
// object it holds, two that put at the same number agree, and the count is right.
func TestOpenedByMany(t *testing.T) {
	const goroutines, numbers, held = 4, 500, 50
	var o opened
	o.scheduled.Store(true) // nobody else tidies
	var running sync.WaitGroup
	for range goroutines {
		running.Go(func() {
			mine := map[uint64]*[64]byte{}
			for round := range 4 * numbers {
				n := uint64(round * 7 % numbers)
				made := new([64]byte)
				got := (*[64]byte)(o.put(n, unsafe.Pointer(made)))
				if holds, ok := mine[n]; ok && got != holds {
					t.Errorf("%d is another object for who holds it", n)
				}
				if mine[n] = got; len(mine) > held {
					clear(mine)
				}
				for n, object := range mine {
					if o.get(n) != unsafe.Pointer(object) {
						t.Errorf("%d is not found by who holds it", n)
					}
				}
				switch round % 100 {
				case 0:
					o.tidy()
				case 50:
					runtime.GC()
				}
			}
		})
	}
	running.Wait()
	places := 0
	for i := range o.shards {
		places += len(o.shards[i].objects)
	}
	if o.bytes() != int64(places)*openedBytes {
		t.Errorf("%d bytes are counted for %d places", o.bytes(), places)
	}
}

// TestKeyOfAHeldObjectIsWrittenTo: a reader of a key gets its object, even if somebody has written to the key in it.
func TestKeyOfAHeldObjectIsWrittenTo(t *testing.T) {
	w, keys := newFolding(t, 10)
	foldKeys(w, true, keys...)
	now := w.Store().Snapshot()
	held, _ := now.Get(keys[3])
	held.Name = "another"
	if got, ok := now.Get(keys[3]); !ok || got != held {
		t.Error("the object is not found")
	}
	if _, ok := now.Get(object.Key{Namespace: "ns", Name: "another"}); ok {
		t.Error("it is found under a name that it does not have")
	}
	runtime.KeepAlive(held)
}

// interrupted is a codec that once calls a function while decoding.
type interrupted struct {
	thingCodec
	call func()
}

func (c *interrupted) DecodeAlone(data []byte) (*thing, error) {
	if call := c.call; call != nil {
		c.call = nil
		call()
	}
	return c.thingCodec.DecodeAlone(data)
}

// TestOpenedByAnotherMeanwhile: a reader gets the object that another one opened meanwhile, and no
// encoding, since the other may have written to the object. An encoding returned with an object is
// its own, and in the given buffer.
func TestOpenedByAnotherMeanwhile(t *testing.T) {
	for name, meanwhile := range map[string]func(s *Snapshot[*thing], k object.Key) *thing{
		"nobody":   func(*Snapshot[*thing], object.Key) *thing { return nil },
		"a reader": func(s *Snapshot[*thing], k object.Key) *thing { o, _ := s.Get(k); return o },
		"one who wants it so": func(s *Snapshot[*thing], k object.Key) *thing {
			h, _ := s.Held(k)
			o, _ := h.ObjectFrom(nil, true)
			return o
		},
		"a scan": func(s *Snapshot[*thing], k object.Key) (o *thing) {
			for key, each := range s.All() {
				if key == k {
					o = each
				}
			}
			return o
		},
		"a reader of another": func(s *Snapshot[*thing], k object.Key) *thing {
			s.Get(object.Key{Namespace: "ns", Name: "n001"})
			return nil
		},
	} {
		codec := &interrupted{}
		w := NewWriter[*thing](Options{})
		w.UseCodec(codec, reflect.TypeFor[*thing]())
		txn := w.Begin()
		for i := range 2 {
			txn.Set(object.KeyOf(plainThing(i)), plainThing(i))
		}
		txn.Commit()
		k := object.KeyOf(plainThing(0))
		if n := foldKeys(w, true, k, object.KeyOf(plainThing(1))); n != 2 {
			t.Fatalf("%d objects were folded", n)
		}
		runtime.GC() // otherwise the objects are still open
		runtime.GC()
		s := w.Store().Snapshot()
		var other *thing
		codec.call = func() {
			if other = meanwhile(s, k); other != nil {
				other.Labels["written"] = "to"
			}
		}
		held, _ := s.Held(k)
		o, encoded := held.ObjectFrom(make([]byte, 3, 10_000), true)
		switch {
		case codec.call != nil:
			t.Errorf("%s: nothing was decoded", name)
		case other != nil && (o != other || encoded != nil):
			t.Errorf("%s: got the same object: %t, with an encoding: %t", name, o == other, encoded != nil)
		case other == nil:
			if same, err := (thingCodec{}).DecodeAlone(encoded); err != nil || !reflect.DeepEqual(same, o) || o.Name != k.Name {
				t.Errorf("%s: the encoding is of %v, the object %v, %v", name, same, o, err)
			}
		}
		if again, ok := s.Get(k); !ok || again != o {
			t.Errorf("%s: the next reader gets another object", name)
		}
		runtime.KeepAlive(o)
		runtime.KeepAlive(other)
	}
}
