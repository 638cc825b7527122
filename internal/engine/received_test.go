package engine

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/store"
)

// TestEncodingsOfWhatIsOnTheWay: objects come in the order in which they were decoded, but some
// never come, and some were not decoded; each gets its own encoding or none.
func TestEncodingsOfWhatIsOnTheWay(t *testing.T) {
	w := inFlight[settings]{bytes: new([]byte)}
	var objects []settings
	for i := range 6 {
		o := namedSettings(i)
		objects = append(objects, o)
		if i == 3 {
			continue // it has none
		}
		from := len(*w.bytes)
		*w.bytes = append(*w.bytes, "encoding-"+o.Name...)
		w.encodings.add(o, encoded{from: from, to: len(*w.bytes)})
	}
	for _, step := range []struct {
		i    int
		want string
	}{{0, "encoding-0"}, {0, ""}, {2, "encoding-2"}, {1, ""}, {3, ""}, {4, "encoding-4"}, {5, "encoding-5"}, {5, ""}} {
		want := store.Encoding{}
		if step.want != "" {
			want = store.EncodingOf([]byte(step.want))
		}
		if got := w.encodingOf(objects[step.i]); !reflect.DeepEqual(got, want) {
			t.Errorf("object %d has the encoding %v, want %q", step.i, got, step.want)
		}
	}
}

// TestWhatNeverComesIsForgotten: a source may decode any number of objects that it never hands out.
func TestWhatNeverComesIsForgotten(t *testing.T) {
	var h decodedQueue[settings]
	var last settings
	for i := range 10 * maxInFlight {
		last = namedSettings(i)
		h.add(last, encoded{from: i})
		if n := len(h.objects) - h.next; n > 2*maxInFlight || len(h.encoded) != len(h.objects) {
			t.Fatalf("%d objects are remembered", n)
		}
	}
	var some decodedQueue[settings]
	var next settings
	for i := range 5 * maxInFlight { // every second one comes, late
		o := namedSettings(i)
		some.add(o, encoded{from: i})
		if i%(2*maxInFlight) == maxInFlight {
			next = o
		}
		if i%(2*maxInFlight) == maxInFlight+1 {
			if at, ok := some.take(next); !ok || at.from != i-1 {
				t.Fatalf("object %d is at %v, %t", i-1, at, ok)
			}
		}
	}
	if at, ok := h.take(last); !ok || at.from != 10*maxInFlight-1 {
		t.Errorf("the last one is at %v, %t", at, ok)
	}
	large := make([]byte, maxKeptBytes+1)
	w := inFlight[settings]{encodings: h, bytes: &large, opened: []settings{last}}
	w.encodings.add(last, encoded{to: 1})
	w.applied()
	if !w.encodingOf(last).IsZero() || w.bytes != nil || len(w.opened) != 0 || w.opened[:1][0] != nil {
		t.Errorf("a batch that was applied is remembered: %d objects, bytes %t, %d opened", len(w.encodings.objects), w.bytes != nil, len(w.opened))
	}
}

// watched is a source that records how it was watched.
type watched struct {
	*answering
	opts source.WatchOptions[settings]
}

func (w *watched) Watch(ctx context.Context, opts source.WatchOptions[settings]) (source.Stream[settings], error) {
	w.opts = opts
	return w.answering.Watch(ctx, opts)
}

// previousData returns the encoding that the informer reports for a previous object.
func (w *watched) previousData(t *testing.T, o settings) (data []byte) {
	t.Helper()
	_, err := w.opts.Decode(nil, o, func(previousData []byte) (settings, error) {
		data = previousData
		return o, nil
	})
	if err != nil {
		t.Error(err)
	}
	return data
}

// watchFolded starts an informer with a handler and n folded objects, which nobody holds.
func watchFolded(t *testing.T, n int) (*watched, *Informer[settings]) {
	t.Helper()
	src := &watched{answering: &answering{items: manySettings(n)}}
	inf := withBudget(1, src)
	if _, err := inf.Subscribe(func(object.Delta[settings]) {}, HandlerOptions{}); err != nil {
		t.Fatal(err)
	}
	startIt(t, inf)
	src.items = nil
	runtime.GC()
	return src, inf
}

// TestRecalledData: a source gets the encoding that a folded object was decoded from, and nothing
// for one that somebody holds.
func TestRecalledData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, inf := watchFolded(t, 50)
		for _, i := range []int{7, 8} {
			o, _ := src.opts.Previous(keyOf(i))
			want, err := o.Marshal()
			if err != nil || o.Name != fmt.Sprint(i) {
				t.Fatalf("the object held is %v; %v", o, err)
			}
			if got := src.previousData(t, o); string(got) != string(want) {
				t.Errorf("%d was decoded from %q, want %q", i, got, want)
			}
			if got := src.previousData(t, o.DeepCopy()); got != nil {
				t.Errorf("another object was decoded from %q", got)
			}
		}
		p := inf.currentParts()[0]
		open, _ := inf.store.Snapshot().Get(keyOf(10))
		meanwhile, _ := inf.store.Snapshot().Held(keyOf(10)) // as if somebody opened it between two looks
		if o := p.inFlight.open(&meanwhile); o != open || src.previousData(t, o) != nil {
			t.Errorf("what somebody has opened was decoded from %q", src.previousData(t, o))
		}
		held, _ := inf.store.Snapshot().Get(keyOf(9))
		if o, _ := src.opts.Previous(keyOf(9)); o != held || src.previousData(t, o) != nil {
			t.Errorf("of an object that somebody has, it is known that it was decoded from %q", src.previousData(t, o))
		}
	})
}

// TestChangesWithoutAnObject have nothing that could be a stand-in.
func TestChangesWithoutAnObject(t *testing.T) {
	p := &part[settings]{inf: withBudget(1, &answering{}), usesStandIns: true}
	deltas := []object.Delta[settings]{{Type: object.Deleted, Key: object.Key{Name: "x"}}, {Type: object.Updated, Key: object.Key{Name: "1"}, Object: namedSettings(1)}}
	p.resolve(deltas)
	if deltas[0].Object != nil || deltas[1].Object == nil {
		t.Errorf("%+v", deltas)
	}
}

// TestStandInsAreBounded: a source may ask for any number of objects that it never hands out.
func TestStandInsAreBounded(t *testing.T) {
	inf := withBudget(1, &answering{})
	p := &part[settings]{inf: inf, usesStandIns: true}
	standIn := func(i int) settings {
		o := namedSettings(i)
		o.SetSelfLink(standInMark)
		return o
	}
	for i := range 5 * maxInFlight {
		p.inFlight.standsFor(keyOf(i), &store.Held[settings]{})
		if n := len(p.inFlight.standIns) + len(p.inFlight.olderStandIns); n > 2*maxInFlight {
			t.Fatalf("%d are remembered", n)
		}
		for _, at := range []int{max(0, i-maxInFlight), i} {
			if _, ok := p.unchanged(standIn(at)); !ok {
				t.Fatalf("after %d it is not known what %d stands for", i, at)
			}
		}
	}
	inf.Halt(nil)
	<-inf.done
}

// TestStandInsInChanges: stand-ins in changes that came together with a list are replaced by the
// states they stand for, even if these were removed by hand.
func TestStandInsInChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := manySettings(1)[0]
		o.ResourceVersion = "10" // which the list does not prove gone
		inf := withBudget(1, telling{&answering{items: []settings{o}}})
		startIt(t, inf)
		p := inf.currentParts()[0]
		p.usesStandIns = true
		held, _ := inf.store.Snapshot().Held(object.KeyOf(o))
		if !held.IsFolded() {
			t.Fatal("the object is open")
		}
		p.inFlight.standsFor(object.KeyOf(o), &held)
		inf.Edit(func(txn *store.Txn[settings]) { txn.Delete(object.KeyOf(o)) })
		p.Add([]object.Delta[settings]{{Type: object.Updated, Key: object.KeyOf(o), Object: standInFor(&held)}}, "10")
		if got, ok := inf.store.Snapshot().Get(object.KeyOf(o)); !ok || got.Data["text"] != o.Data["text"] || got.GetSelfLink() != "" {
			t.Errorf("the store has %v", got)
		}
	})
}

// TestPreviousOfFoldedObjects: a source that may look at its previous objects gets real ones or
// none, whatever it asks for.
func TestPreviousOfFoldedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		src := &watched{answering: &answering{items: manySettings(50)}}
		inf := withBudget(1, remembering{src, func(opts source.ListOptions[settings]) {
			for i := range 50 {
				if opts.Previous == nil {
					break
				}
				if o, ok := opts.Previous(keyOf(i)); ok && (o == nil || len(o.Data) == 0) {
					t.Errorf("the object that %d was before is %v", i, o)
				}
				asked++
			}
		}})
		startIt(t, inf)
		runtime.GC() // otherwise unused objects are still open
		runtime.GC()
		before := asked
		inf.currentParts()[0].forceRelist(errOtherVersion)
		time.Sleep(time.Hour)
		synctest.Wait()
		if asked == before {
			t.Error("there was no other list")
		}
		runtime.GC()
		runtime.GC()
		for i := range 50 {
			if o, ok := src.opts.Previous(keyOf(i)); ok && o == nil {
				t.Errorf("%d was nothing", i)
			}
		}
	})
}

// remembering is a source that records how it is asked for a list, and keeps nothing that it brings.
type remembering struct {
	*watched
	look func(source.ListOptions[settings])
}

func (r remembering) List(ctx context.Context, opts source.ListOptions[settings], each func(settings) error) (source.ListResult, error) {
	r.look(opts)
	return r.watched.List(ctx, opts, func(o settings) error { return each(o.DeepCopy()) })
}

// TestReceivedEncodings: encodings that came together are kept together, and each object can be restored from its own.
func TestReceivedEncodings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := withBudget(1, &answering{})
		startIt(t, inf)
		inf.budget.memory.Change(1<<20 - inf.budget.memory.Used()) // so that what comes is folded
		p := inf.currentParts()[0]
		for batch := range 3 {
			items, data := manySettings(5+batch), [][]byte{}
			for _, o := range items {
				data = append(data, marshaled(t, o))
				if got, err := p.decode(data[len(data)-1], nil, as(o)); got != o || err != nil {
					t.Fatalf("%v is decoded to %v, %v", o, got, err)
				}
			}
			for i, o := range items {
				if i == 3 {
					continue
				}
				if want := store.EncodingOf(append([]byte{0, 0}, data[i]...)); !reflect.DeepEqual(p.inFlight.encodingOf(o), want) {
					t.Fatalf("object %d of batch %d was not decoded from %q", i, batch, data[i])
				}
			}
			if limit := 30_000; len(*p.inFlight.bytes) > limit {
				t.Errorf("%d bytes are kept of few objects", len(*p.inFlight.bytes))
			}
		}
		inf.budget.memory.Change(-inf.budget.memory.Used())
		o := namedSettings(1)
		if got, err := p.decode(nil, nil, as(o)); got != o || err != nil || !p.inFlight.encodingOf(o).IsZero() {
			t.Errorf("%v is decoded, %v; encodings are kept although there is room", got, err)
		}
	})
}

// TestBytesOfWhatNeverComesAreForgotten: large objects that a source decodes but never hands out
// take a bounded amount of memory.
func TestBytesOfWhatNeverComesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := withBudget(1, &answering{})
		startIt(t, inf)
		inf.budget.memory.Change(1<<20 - inf.budget.memory.Used()) // so that what comes is folded
		p := inf.currentParts()[0]
		const size = 100_000
		o := namedSettings(0)
		o.Data = map[string]string{"text": strings.Repeat("x", size)}
		for i := range 100 {
			o = o.DeepCopy()
			o.Name = fmt.Sprint(i)
			data := marshaled(t, o)
			if _, err := p.decode(data, nil, as(o)); err != nil {
				t.Fatal(err)
			}
			w := &p.inFlight
			if pending := len(w.encodings.objects); len(*w.bytes) > maxInFlightBytes+2*size || pending > maxInFlightBytes/size+2 {
				t.Fatalf("%d objects and %d bytes are kept of %d objects that did not come", pending, len(*w.bytes), i+1)
			}
		}
		if want := append([]byte{0, 0}, marshaled(t, o)...); !reflect.DeepEqual(p.inFlight.encodingOf(o), store.EncodingOf(want)) {
			t.Error("the last one comes, and nobody knows what it was decoded from")
		}
		p.inFlight.applied()
		inf.budget.memory.Change(-inf.budget.memory.Used())
	})
}

// TestObjectsOpenedForWhatNeverComesAreForgotten: a source may ask for any number of objects whose
// changes cannot be decoded.
func TestObjectsOpenedForWhatNeverComesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 50
		src, inf := watchFolded(t, n)
		w := &inf.currentParts()[0].inFlight
		for i := range 5 * maxInFlight {
			o, ok := src.opts.Previous(keyOf(i % n))
			if !ok || len(w.opened) > 2*maxInFlight || w.opened[len(w.opened)-1] != o {
				t.Fatalf("after %d, %d objects are kept open; the last one: %t", i, len(w.opened), ok)
			}
		}
		w.applied()
	})
}

// as is the decode function of a source for o.
func as(o settings) func([]byte) (settings, error) {
	return func([]byte) (settings, error) { return o, nil }
}

func marshaled(t *testing.T, o settings) []byte {
	t.Helper()
	data, err := o.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}
