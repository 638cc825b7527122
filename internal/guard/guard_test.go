package guard

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tidings/tidings/object"
)

type settings = *corev1.ConfigMap

// newSampler returns a Sampler of an empty cache.
func newSampler(found *[]Finding) *Sampler { return newCache(found).sampler }

func namedSettings(i int) settings {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}
}

// cache is a cache whose changes a Sampler is told of.
type cache struct {
	sampler *Sampler
	objects map[object.Key]object.Object
}

func newCache(found *[]Finding) *cache {
	c := &cache{objects: map[object.Key]object.Object{}}
	c.sampler = New(func(f Finding) { *found = append(*found, f) }, func(key object.Key) (object.Object, bool) {
		o, ok := c.objects[key]
		return o, ok
	})
	return c
}

// list fills the cache with n objects, as a list does.
func (c *cache) list(n int) {
	listed := map[object.Key]object.Object{}
	for i := range n {
		o := namedSettings(i)
		listed[object.KeyOf(o)] = o
	}
	c.sampler.Listed(maps.All(listed), n)
	c.objects = listed
	c.sampler.Forget()
}

// change replaces the i-th object, and returns its new state.
func (c *cache) change(i int) settings {
	o := namedSettings(i)
	key := object.KeyOf(o)
	c.sampler.Changing(key)
	c.sampler.Arriving(key, o)
	c.objects[key] = o
	c.sampler.Visit()
	return o
}

func write(o object.Object) { o.(settings).Data = map[string]string{"written": "to"} }

// TestGuardChecksEverySampleOnce writes to every remembered object: each write is reported once,
// when the sample is replaced or at the end.
func TestGuardChecksEverySampleOnce(t *testing.T) {
	var found []Finding
	g := newSampler(&found)
	const remembered = 3*Kept + 5
	for i := range remembered {
		o := namedSettings(i)
		g.Keep(o, EveryChange)
		o.Data = map[string]string{"written": "to"}
		if want := max(0, i+1-Kept); len(found) != want {
			t.Fatalf("%d reports after %d samples, want %d", len(found), i+1, want)
		}
	}
	if g.Held(0) != 2*Kept { // and those found last
		t.Errorf("%d objects are held, want %d", g.Held(0), 2*Kept)
	}
	g.CheckAll()
	if g.Held(0) != 0 {
		t.Errorf("%d objects are held in the end", g.Held(0))
	}
	g.CheckAll() // finds nothing more
	if len(found) != remembered {
		t.Fatalf("%d reports, want %d", len(found), remembered)
	}
	for i, m := range found[:remembered-Kept] {
		if m.Key.Name != fmt.Sprint(i) || m.Handler != "" {
			t.Errorf("report %d is %+v", i, m)
		}
	}
	for i := range Kept + 1 { // it starts over
		g.Keep(namedSettings(i), EveryChange)
	}
	if len(found) != remembered || len(g.kept) != Kept || g.kept[0].obj.GetName() != fmt.Sprint(Kept) {
		t.Errorf("%d reports and %d samples after the end, want %d and %d", len(found), len(g.kept), remembered, Kept)
	}
}

// referring is an object whose methods panic without the metadata that it refers to.
type referring struct {
	metav1.TypeMeta    `json:",inline"`
	*metav1.ObjectMeta `json:"metadata"`
}

func (r *referring) DeepCopyObject() runtime.Object {
	return &referring{TypeMeta: r.TypeMeta, ObjectMeta: r.ObjectMeta.DeepCopy()}
}

// TestGuardNamesWhatCannotTellItsName: somebody wrote to an object, whose methods panic since then.
func TestGuardNamesWhatCannotTellItsName(t *testing.T) {
	var found []Finding
	g := newSampler(&found)
	o := &referring{ObjectMeta: &metav1.ObjectMeta{Namespace: "shop", Name: "a"}}
	g.Keep(o, EveryChange)
	o.ObjectMeta = nil
	g.CheckAll()
	if len(found) != 1 || found[0].Key.String() != "shop/a" {
		t.Errorf("found %+v", found)
	}
}

// TestGuardSamples counts the guard's checks.
func TestGuardSamples(t *testing.T) {
	var found []Finding
	g := newSampler(&found)
	deliveries := 0
	for n := range uint64(3 * EveryDelivery) {
		if g.Sampled(n + 1) {
			deliveries++
		}
	}
	if !g.Sampled(1) || deliveries != 3 {
		t.Errorf("%d of %d deliveries are sampled, want 3 with the first", deliveries, 3*EveryDelivery)
	}
	g.Keep(namedSettings(0), EveryChange-1)
	if len(g.kept) != 0 {
		t.Error("a change was remembered too early")
	}
	g.Keep(namedSettings(1), 1)
	g.Keep(namedSettings(2), 1)
	g.Keep(namedSettings(3), 5*EveryChange)
	if len(g.kept) != 2 || g.kept[0].obj.GetName() != "1" || g.kept[1].obj.GetName() != "3" {
		t.Errorf("remembered %v, want 1 and 3", g.kept)
	}
	var off *Sampler
	off.Keep(namedSettings(0), 10*EveryChange)
	if off.Sampled(1) || off.Held(0) != 0 {
		t.Error("a guard that is off looks")
	}
	off.Arriving(object.Key{Name: "0"}, namedSettings(0))
	off.Listed(all(3), 3)
	off.Changing(object.Key{Name: "0"})
	off.Forget()
	off.Visit()
	off.CheckAll()
}

// TestGuardWatchesADelivery, and blames the handler for what happened meanwhile, to one object once.
func TestGuardWatchesADelivery(t *testing.T) {
	var found []Finding
	c := newCache(&found)
	o, other := c.change(1), namedSettings(2)
	for _, kept := range []settings{o, other} {
		c.sampler.Keep(kept, EveryChange)
	}
	if c.sampler.Watch(o, object.KeyOf(o))("harmless"); len(found) != 0 {
		t.Errorf("found %v, and nobody wrote", found)
	}
	check := c.sampler.Watch(o, object.KeyOf(o))
	write(o)
	write(other)
	check("guilty")
	if want := (Finding{Key: object.Key{Name: "1"}, Handler: "guilty"}); len(found) != 1 || found[0] != want {
		t.Errorf("found %v, want %v", found, want)
	}
	c.sampler.CheckAll()
	if want := (Finding{Key: object.Key{Name: "2"}}); len(found) != 2 || found[1] != want {
		t.Errorf("found %v, want the second to be %v", found, want)
	}
}

// TestEveryWriteToASmallCacheIsFound, be it written to once or after each change.
func TestEveryWriteToASmallCacheIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var found []Finding
		c := newCache(&found)
		c.list(Prints)
		for i := range Prints {
			write(c.objects[object.Key{Name: fmt.Sprint(i)}])
		}
		for range 8 { // nothing but bookmarks comes
			time.Sleep(time.Minute)
			c.sampler.Visit()
		}
		if len(found) != Prints {
			t.Errorf("%d of %d writes were found", len(found), Prints)
		}

		found = nil
		const changes = 3600
		for i := range changes {
			o := c.change(i % 50)
			time.Sleep(time.Second)
			write(o)
		}
		c.sampler.CheckAll()
		if len(found) != changes {
			t.Errorf("%d of %d writes were found", len(found), changes)
		}
	})
}

// TestLooksPerObject: a look at each object every two minutes is enough, so that few objects cost little.
func TestLooksPerObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, size := range []int{1, 10, Prints} {
			c := newCache(new([]Finding))
			c.list(size)
			looks, at := 0, map[object.Key]int{}
			current := c.sampler.current
			c.sampler.current = func(key object.Key) (object.Object, bool) {
				looks++
				at[key]++
				return current(key)
			}
			const rounds = 10
			for range int(rounds * lookEvery / time.Second) {
				time.Sleep(time.Second)
				c.sampler.Visit()
			}
			if want := rounds * max(size, few); looks < want-1 || looks > want+1 {
				t.Errorf("%d looks at %d objects, want %d", looks, size, want)
			}
			for key, n := range at {
				if n < looks/size || n > looks/size+1 {
					t.Errorf("%d of %d looks at %d objects are at %s", n, looks, size, key)
				}
			}
		}
	})
}

// TestWritesToLargeCaches measures what the README claims: the probability that one write to an
// object of a cache of a given size is found.
func TestWritesToLargeCaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(1, 2))
		for _, size := range []int{100, 500, 2000} {
			var found []Finding
			c := newCache(&found)
			c.list(size)
			const writes = 400
			for range writes {
				o := c.objects[object.Key{Name: fmt.Sprint(rnd.IntN(size))}]
				o.(settings).Labels = map[string]string{"n": fmt.Sprint(rnd.Int())}
				for range 4 {
					time.Sleep(time.Minute)
					c.sampler.Visit()
				}
				if len(found) > 0 && found[len(found)-1].Key == object.KeyOf(o) { // it is listed again
					c.sampler.remember(object.KeyOf(o), o)
				}
			}
			want := min(1, float64(Prints)/float64(size))
			if got := float64(len(found)) / writes; math.Abs(got-want) > 0.08 {
				t.Errorf("%d objects: %.2f of the writes were found, want %.2f", size, got, want)
			}
		}
	})
}

// TestNoFalseFindings changes, lists and forgets objects that nobody writes to, and bounds the looks.
func TestNoFalseFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(3, 4))
		var found []Finding
		c := newCache(&found)
		for range 5000 {
			time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
			switch n := rnd.IntN(400); {
			case n < 100:
				delete(c.objects, object.Key{Name: fmt.Sprint(n)}) // unseen
			case n == 101:
				c.list(n)
			default:
				c.change(n)
			}
			p := &c.sampler.prints
			if len(p.of) != len(p.order) || len(p.order) > Prints {
				t.Fatalf("%d fingerprints of %d keys", len(p.of), len(p.order))
			}
			for key, of := range p.of {
				if p.order[of.index] != key {
					t.Fatalf("%v is not in its place", key)
				}
			}
		}
		c.sampler.CheckAll()
		if len(found) > 0 || len(c.sampler.prints.of) > 0 {
			t.Errorf("found %v; %d fingerprints are left", found, len(c.sampler.prints.of))
		}
	})
}
