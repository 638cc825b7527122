package guard

import (
	"iter"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/object"
)

// all returns n objects in order, as a list has them.
func all(n int) iter.Seq2[object.Key, object.Object] {
	return func(yield func(object.Key, object.Object) bool) {
		for i := range n {
			if o := namedSettings(i); !yield(object.KeyOf(o), o) {
				return
			}
		}
	}
}

// watched returns the names of the objects whose fingerprints are remembered, in order.
func (c *cache) watched() (names []string) {
	for _, key := range c.sampler.keys() {
		names = append(names, key.Name)
	}
	slices.Sort(names)
	return names
}

// TestListedAreSpread: of a list, the first of every so many objects is remembered, or each of a short one.
func TestListedAreSpread(t *testing.T) {
	for n, every := range map[int]int{0: 1, 1: 1, 10: 1, Prints: 1, 3 * Prints: 3, 10 * Prints: 10} {
		c := newCache(new([]Finding))
		c.sampler.Listed(all(n), n)
		var want []string
		for i := 0; i < n; i += every {
			want = append(want, strconv.Itoa(i))
		}
		slices.Sort(want)
		if got := c.watched(); !slices.Equal(got, want) {
			t.Errorf("of %d objects, remembered %v, want %v", n, got, want)
		}
	}
}

// TestListedAreLookedAtBefore the list replaces them.
func TestListedAreLookedAtBefore(t *testing.T) {
	var found []Finding
	c := newCache(&found)
	c.list(10)
	write(c.objects[object.Key{Name: "7"}])
	if c.list(10); len(found) != 1 || found[0].Key.Name != "7" {
		t.Errorf("found %v, want the write to 7", found)
	}
	if n := len(c.watched()); n > 10 {
		t.Errorf("%d of 10 objects are remembered", n)
	}
}

// TestArrivingIsSeldom: of changed objects, one each half second is remembered.
func TestArrivingIsSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(new([]Finding))
		for i, step := range []struct {
			wait time.Duration
			want []string
		}{
			{0, []string{"0"}}, {0, []string{"0"}}, {takeEvery - 1, []string{"0"}}, {1, []string{"0", "3"}}, {1, []string{"0", "3"}},
		} {
			time.Sleep(step.wait)
			if c.change(i); !slices.Equal(c.watched(), step.want) {
				t.Errorf("step %d: remembered %v, want %v", i, c.watched(), step.want)
			}
		}
	})
}

// TestArrivingAgain, without a word of the object before: the new one is remembered in its place.
func TestArrivingAgain(t *testing.T) {
	var found []Finding
	c := newCache(&found)
	before, after := namedSettings(1), namedSettings(1)
	after.Data = map[string]string{"another": "state"}
	key := object.KeyOf(after)
	for _, o := range []settings{before, after} {
		c.sampler.remember(key, o)
		c.objects[key] = o
	}
	if c.sampler.look(key); len(found) != 0 || !slices.Equal(c.watched(), []string{"1"}) {
		t.Errorf("found %v, remembered %v", found, c.watched())
	}
	write(after)
	if c.sampler.look(key); len(found) != 1 {
		t.Errorf("found %v, want the write to the new object", found)
	}
}

// TestArrivingInAnothersPlace looks at the other one for the last time.
func TestArrivingInAnothersPlace(t *testing.T) {
	var found []Finding
	c := newCache(&found)
	c.list(Prints)
	for _, o := range c.objects {
		write(o)
	}
	c.change(Prints)
	if names := c.watched(); len(found) != 1 || len(names) != Prints || !slices.Contains(names, strconv.Itoa(Prints)) {
		t.Errorf("found %v; %d are remembered", found, len(names))
	}
}

// TestForget drops the fingerprints of objects that are gone or others now, and of no more.
func TestForget(t *testing.T) {
	c := newCache(new([]Finding))
	c.list(4)
	delete(c.objects, object.Key{Name: "1"})
	c.objects[object.Key{Name: "2"}] = namedSettings(2)
	if c.sampler.Forget(); !slices.Equal(c.watched(), []string{"0", "3"}) {
		t.Errorf("remembered %v, want 0 and 3", c.watched())
	}
}

// TestUnseenChanges are no writes: an object that was deleted or replaced is forgotten at the next look.
func TestUnseenChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var found []Finding
		c := newCache(&found)
		c.list(4)
		delete(c.objects, object.Key{Name: "1"})
		another := namedSettings(2)
		write(another)
		c.objects[object.KeyOf(another)] = another
		time.Sleep(2 * lookEvery)
		for range 4 {
			c.sampler.Visit()
			time.Sleep(lookEvery)
		}
		if len(found) != 0 || !slices.Equal(c.watched(), []string{"0", "3"}) {
			t.Errorf("found %v, remembered %v, want 0 and 3", found, c.watched())
		}
	})
}

// TestPrintsKeepNothingAlive: a key is not a part of its object.
func TestPrintsKeepNothingAlive(t *testing.T) {
	c := newCache(new([]Finding))
	o := c.change(1)
	if kept := c.sampler.keys()[0].Name; unsafe.StringData(kept) == unsafe.StringData(o.Name) {
		t.Error("the name of the object is held")
	}
}

// valued is an object that is no pointer, and has no identity.
type valued struct {
	metav1.TypeMeta    `json:",inline"`
	*metav1.ObjectMeta `json:"metadata"`
}

func (v valued) GetObjectKind() schema.ObjectKind { return &v.TypeMeta }
func (v valued) DeepCopyObject() runtime.Object   { return valued{v.TypeMeta, v.ObjectMeta.DeepCopy()} }

// TestObjectsWithoutAddress cannot be told from others of the same key, so they are not remembered.
func TestObjectsWithoutAddress(t *testing.T) {
	c := newCache(new([]Finding))
	o := valued{ObjectMeta: &metav1.ObjectMeta{Name: "v"}}
	if c.sampler.Arriving(object.KeyOf(o), o); len(c.watched()) != 0 {
		t.Errorf("remembered %v", c.watched())
	}
}
