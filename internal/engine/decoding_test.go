package engine

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/memory"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// tightPart starts an informer with a tight budget, so that what comes is folded, and returns its part.
func tightPart(t *testing.T, src source.ListerWatcher[settings]) *part[settings] {
	t.Helper()
	inf := withBudget(1, src)
	startIt(t, inf)
	inf.memory.Budget().Change(1<<20 - inf.memory.Budget().Used())
	t.Cleanup(func() { inf.memory.Budget().Change(-inf.memory.Budget().Used()) })
	return inf.currentParts()[0]
}

// TestReceivedEncodings: each object travels with its own encoding, from which it can be restored, until the batch is
// in the store, or the list that came before it.
func TestReceivedEncodings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := tightPart(t, &answering{})
		w := &p.inFlight
		for batch := range 3 {
			p.Begin()
			var states []intake.State
			items := manySettings(5 + batch)
			for _, o := range items {
				r, err := p.Decode(arriving(t, o))
				if r.Object != o || r.Unchanged || err != nil {
					t.Fatalf("%v is decoded to %+v, %v", o, r, err)
				}
				states = append(states, r.State)
			}
			for i, o := range items {
				want := store.EncodingOf(append([]byte{0, 0}, marshaled(t, o)...))
				if got := w.encodingOf(states[i]); !reflect.DeepEqual(got, want) {
					t.Fatalf("object %d of batch %d was not decoded from its encoding", i, batch)
				}
			}
			if limit := 30_000; len(*w.bytes) > limit {
				t.Errorf("%d bytes are kept of few objects", len(*w.bytes))
			}
			if batch == 1 {
				w.applied() // a list that came with these changes
			} else if batch == 2 {
				w.delivered()
			}
			if known := !w.encodingOf(states[0]).IsZero(); known != (batch == 0) {
				t.Errorf("batch %d: the encoding is known: %t", batch, known)
			}
		}
		if !w.encodingOf(nil).IsZero() {
			t.Error("an object without a state has an encoding")
		}
		p.inf.memory.Budget().Change(-p.inf.memory.Budget().Used())
		o := namedSettings(1)
		if r, err := p.Decode(arriving(t, o)); r.Object != o || err != nil || r.State != nil && !memory.Eager {
			t.Errorf("%+v is decoded, %v; encodings are kept although there is room", r, err)
		}
	})
}

// TestWhatCannotBeDecoded has no state, and its bytes are not kept.
func TestWhatCannotBeDecoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := tightPart(t, &answering{})
		e := arriving(t, namedSettings(1))
		e.Decode = func(settings, []byte) (settings, error) { return nil, errOtherVersion }
		if r, err := p.Decode(e); err != errOtherVersion || r.Object != nil || r.State != nil ||
			len(*p.inFlight.bytes) != 0 {
			t.Errorf("%+v, %v; %d bytes", r, err, len(*p.inFlight.bytes))
		}
		inexact := arriving(t, namedSettings(2))
		inexact.Exact = false
		if r, err := p.Decode(inexact); err != nil || r.State != nil {
			t.Errorf("the encoding of something else is kept: %+v, %v", r, err)
		}
	})
}

// TestRoomOfLargeBatches is not kept for small ones.
func TestRoomOfLargeBatches(t *testing.T) {
	large := make([]byte, maxKeptBytes+1)
	w := inFlight[settings]{bytes: &large, opened: []settings{namedSettings(1)}}
	var first *arrived[settings]
	for i := range 10 * maxKeptStates {
		state := w.unchanged(&store.Held[settings]{})
		if i == 0 {
			first = state
		}
	}
	if w.delivered(); w.bytes != nil || cap(w.states) > maxKeptStates || len(w.opened) != 0 || w.opened[:1][0] != nil {
		t.Errorf("bytes %t, room for %d states, %d opened", w.bytes != nil, cap(w.states), len(w.opened))
	}
	w.states = append(w.states, arrived[settings]{}, arrived[settings]{})
	if w.forgetStates(); len(w.states) != 0 || cap(w.states) == 0 {
		t.Errorf("%d states and room for %d", len(w.states), cap(w.states))
	}
	if first == nil {
		t.Error("there was no state")
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

// previousOf returns what a new state of the i-th object is decoded relative to: the object, and what it was decoded
// from.
func previousOf(t *testing.T, p *part[settings], i int, uid types.UID) (object settings, data []byte) {
	t.Helper()
	o := namedSettings(i)
	o.UID, o.ResourceVersion = uid, "99"
	e := arriving(t, o)
	e.Exact = false
	e.Decode = func(previous settings, previousData []byte) (settings, error) {
		object, data = previous, previousData
		return o, nil
	}
	if r, err := p.Decode(e); err != nil || r.Object != o {
		t.Fatalf("%+v, %v", r, err)
	}
	return object, data
}

// TestRecalledData: a new state of a folded object is decoded relative to the object, and to the encoding that it was
// decoded from unless somebody has it open already.
func TestRecalledData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, inf := watchFolded(t, 50)
		p := inf.currentParts()[0]
		for _, i := range []int{7, 8} {
			o, data := previousOf(t, p, i, "")
			if o == nil || o.Name != fmt.Sprint(i) || string(data) != string(marshaled(t, o)) {
				t.Fatalf("%d is decoded relative to %v and %q", i, o, data)
			}
		}
		if o, data := previousOf(t, p, 11, "another"); o != nil || data != nil {
			t.Errorf("another object is decoded relative to %v and %q", o, data)
		}
		open, _ := inf.store.Snapshot().Get(keyOf(10))
		meanwhile, _ := inf.store.Snapshot().Held(keyOf(10)) // as if somebody opened it between two looks
		if o, data := p.inFlight.open(&meanwhile, true); o != open || data != nil {
			t.Errorf("what somebody has opened was decoded from %q", data)
		}
		held, _ := inf.store.Snapshot().Get(keyOf(9))
		if o, data := previousOf(t, p, 9, ""); o != held || data != nil {
			t.Errorf("of an object that somebody has, it is known that it was decoded from %q", data)
		}
		p.inFlight.applied()
		runtime.KeepAlive(open)
		runtime.KeepAlive(held)
	})
}

// TestChangesWithoutAnObject have no state that could be opened.
func TestChangesWithoutAnObject(t *testing.T) {
	changes := changesOf(object.Delta[settings]{Type: object.Deleted, Key: object.Key{Name: "x"}},
		object.Delta[settings]{Type: object.Updated, Key: object.Key{Name: "1"}, Object: namedSettings(1)})
	changes[1].Unchanged = true // and open
	if resolve(changes); changes[0].Object != nil || changes[1].Object == nil {
		t.Errorf("%+v", changes)
	}
}

// TestUnchangedStatesInChanges: folded states in changes that came together with the end of a list are opened, even if
// they were removed by hand.
func TestUnchangedStatesInChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := manySettings(1)[0]
		o.ResourceVersion = "10" // which the list does not prove gone
		inf := withBudget(1, &telling{&answering{items: []settings{o}}})
		startIt(t, inf)
		p := inf.currentParts()[0]
		held, _ := inf.store.Snapshot().Held(object.KeyOf(o))
		if !held.IsFolded() {
			t.Fatal("the object is open")
		}
		state := p.inFlight.unchanged(&held)
		p.inFlight.applied() // the list
		inf.Edit(func(txn *store.Txn[settings]) { txn.Delete(object.KeyOf(o)) })
		changes := changesOf(object.Delta[settings]{Type: object.Updated, Key: object.KeyOf(o)})
		changes[0].Unchanged, changes[0].State = true, state
		p.Change(changes, "10")
		if got, ok := inf.store.Snapshot().Get(object.KeyOf(o)); !ok || got.Data["text"] != o.Data["text"] {
			t.Errorf("the store has %v", got)
		}
		if len(p.inFlight.states) != 0 {
			t.Error("the state is kept")
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

func (r remembering) List(
	ctx context.Context, opts source.ListOptions[settings], each func(settings) error,
) (source.ListResult, error) {
	r.look(opts)
	return r.watched.List(ctx, opts, func(o settings) error { return each(o.DeepCopy()) })
}

// TestObjectsOpenedForWhatNeverComesAreForgotten: a source may ask for any number of objects whose
// changes cannot be decoded.
func TestObjectsOpenedForWhatNeverComesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 50
		src, inf := watchFolded(t, n)
		w := &inf.currentParts()[0].inFlight
		for i := range 5 * maxOpenedInFlight {
			o, ok := src.opts.Previous(keyOf(i % n))
			if !ok || len(w.opened) > 2*maxOpenedInFlight || w.opened[len(w.opened)-1] != o {
				t.Fatalf("after %d, %d objects are kept open; the last one: %t", i, len(w.opened), ok)
			}
		}
		w.applied()
	})
}

func marshaled(t testing.TB, o settings) []byte {
	data, err := o.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}
