package intake

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/object"
)

type thing = *metav1.PartialObjectMetadata

func named(name, version string) thing {
	meta := metav1.ObjectMeta{Name: name, UID: types.UID("u" + name), ResourceVersion: version}
	return &metav1.PartialObjectMetadata{ObjectMeta: meta}
}

// TestGatheringForgets removed objects.
func TestGatheringForgets(t *testing.T) {
	g := NewGathering[thing](4)
	for _, name := range strings.Split("abxd", "") {
		if !g.Add(Received[thing]{Object: named(name, "1")}) {
			t.Errorf("%s is left out", name)
		}
	}
	if !g.Set(2, Received[thing]{Object: named("c", "1")}) {
		t.Error("c is left out")
	}
	names := func() (names string) {
		for key := range g.Collection().All() {
			names += key.Name
		}
		return names
	}
	if g.Remove(1); names() != "adc" || g.Key(1).Name != "d" {
		t.Errorf("got %s", names())
	}
	if g.Remove(2); names() != "ad" || g.Len() != 2 {
		t.Errorf("got %s", names())
	}
	g.Truncate(1)
	for _, o := range g.(*open[thing]).items[:4][1:] {
		if o != nil {
			t.Errorf("%s is still there", o.Name)
		}
	}
}

// TestPreviousDecodes: an unchanged object is returned again, another state is decoded relative to the one before, and
// other objects under the key lend nothing.
func TestPreviousDecodes(t *testing.T) {
	held := named("a", "5")
	var asked int
	previous := Previous[thing](func(key object.Key) (thing, bool) {
		asked++
		return held, key.Name == "a"
	})
	a := object.Key{Name: "a"}
	for name, tt := range map[string]struct {
		arrives   Encoded[thing]
		unchanged bool
		relative  thing
	}{
		"the same":                          {Encoded[thing]{Reuse: true, Stable: true, Key: a, UID: "ua", Version: "5"}, true, nil},
		"the same, in an unstable encoding": {Encoded[thing]{Reuse: true, Key: a, UID: "ua", Version: "5"}, false, held},
		"newer":                             {Encoded[thing]{Reuse: true, Stable: true, Key: a, UID: "ua", Version: "6"}, false, held},
		"without a version":                 {Encoded[thing]{Reuse: true, Stable: true, Key: a, UID: "ua"}, false, held},
		"recreated":                         {Encoded[thing]{Reuse: true, Stable: true, Key: a, UID: "other", Version: "5"}, false, nil},
		"unknown":                           {Encoded[thing]{Reuse: true, Stable: true, Key: object.Key{Name: "b"}, UID: "ua", Version: "5"}, false, nil},
		"not to be reused":                  {Encoded[thing]{Stable: true, Key: a, UID: "ua", Version: "5"}, false, nil},
	} {
		asked = 0
		fresh, decoded := named("a", "7"), 0
		tt.arrives.Decode = func(before thing, data []byte) (thing, error) {
			if decoded++; before != tt.relative || data != nil {
				t.Errorf("%s: decoded relative to %v and %q", name, before, data)
			}
			return fresh, nil
		}
		got, err := previous.Decode(&tt.arrives)
		want := fresh
		if tt.unchanged {
			want = held
		}
		right := got.Object == want && got.Unchanged == tt.unchanged && (decoded == 0) == tt.unchanged
		if err != nil || !right || (asked > 0) != tt.arrives.Reuse {
			t.Errorf("%s: %+v, %v; decoded %d times, asked %d times", name, got, err, decoded, asked)
		}
	}
	broken := errors.New("broken")
	fail := func(thing, []byte) (thing, error) { return nil, broken }
	got, err := Previous[thing](nil).Decode(&Encoded[thing]{Decode: fail})
	if err != broken || got.Object != nil {
		t.Errorf("what is broken is %+v, %v", got, err)
	}
}

type state struct{}

func (state) Key() object.Key         { return object.Key{Name: "s"} }
func (state) UID() types.UID          { return "us" }
func (state) ResourceVersion() string { return "9" }

// TestIdentityOfWhatIsReceived is that of the object, or of the state that stands for it.
func TestIdentityOfWhatIsReceived(t *testing.T) {
	for want, r := range map[string]Received[thing]{
		"a ua 5": {Object: named("a", "5")}, "b ub 6": {Object: named("b", "6"), State: state{}},
		"c uc 7": {Object: named("c", "7"), Unchanged: true}, "s us 9": {State: state{}, Unchanged: true},
	} {
		if got := r.Key().Name + " " + string(r.UID()) + " " + r.Version(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// deltas is a sink that keeps what it was told.
type deltas struct {
	added   []object.Delta[thing]
	version string
}

func (d *deltas) Add(added []object.Delta[thing], version string) {
	d.added, d.version = added, version
}

func (d *deltas) Replace(objects object.Collection[thing], version string) {
	d.added, d.version = make([]object.Delta[thing], objects.Len()), version
}

// TestHolderAsSink: the sink made of a holder hands on everything, and the holder is found in it.
func TestHolderAsSink(t *testing.T) {
	var told deltas
	sink := AsSink[thing]{HolderOf[thing](&told, nil)}
	if found, ok := HolderOf[thing](sink, nil).(Open[thing]); !ok || found.Sink != Sink[thing](&told) {
		t.Errorf("the holder is not found in the sink made of it: %+v", found)
	}
	o := named("a", "5")
	if held, ok := sink.Held(object.KeyOf(o)); ok || held != nil {
		t.Errorf("a sink without an answer has %v", held)
	}
	previous := func(key object.Key) (thing, bool) { return o, key.Name == "a" }
	if held, ok := HolderOf[thing](&told, previous).Held(object.KeyOf(o)); !ok || held != o {
		t.Errorf("has %v, %t", held, ok)
	}
	if sink.Add(nil, "5"); told.added != nil || told.version != "5" {
		t.Errorf("told of %+v at %s, want nothing at 5", told.added, told.version)
	}
	sink.Add([]object.Delta[thing]{{Type: object.Added, Key: object.KeyOf(o), Object: o}}, "6")
	if len(told.added) != 1 || told.added[0].Object != o || told.added[0].Type != object.Added || told.version != "6" {
		t.Errorf("told of %+v at %s", told.added, told.version)
	}
	if sink.Replace(object.Items[thing]{o, o}, "7"); len(told.added) != 2 || told.version != "7" {
		t.Errorf("told of %d objects at %s", len(told.added), told.version)
	}
}
