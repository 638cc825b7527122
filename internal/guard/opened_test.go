package guard

import (
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/object"
)

// TestOpenedObjectIsGuarded: the cache opens an object for a reader, who writes to it. That is found when the object
// changes, in the course of time, after the cache has dropped it, or in the end, and once.
func TestOpenedObjectIsGuarded(t *testing.T) {
	for name, later := range map[string]func(*cache, object.Key, object.Object){
		"it changes": func(c *cache, key object.Key, _ object.Object) { c.sampler.Changing(key) },
		"time goes by": func(c *cache, _ object.Key, _ object.Object) {
			c.sampler.Visit()
			time.Sleep(lookEvery)
			c.sampler.Visit()
		},
		"it is dropped": func(c *cache, key object.Key, o object.Object) {
			delete(c.objects, key)
			c.sampler.Dropped(o)
			time.Sleep(openedFor)
			c.sampler.Visit()
		},
		"all are looked at": func(c *cache, _ object.Key, _ object.Object) {
			time.Sleep(openedFor)
			c.sampler.LookAtAll()
		},
		"the end": func(c *cache, _ object.Key, _ object.Object) { c.sampler.CheckAll() },
	} {
		for _, remembered := range []bool{false, true} { // written to at once, or after the first look
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var found []Finding
					c := newCache(&found)
					o := namedSettings(7)
					key := object.KeyOf(o)
					c.sampler.Opened(key, o)
					c.objects[key] = o
					if remembered {
						time.Sleep(openedFor)
						if c.sampler.Visit(); c.sampler.Held(0) != 0 || len(found) != 0 {
							t.Errorf("%d objects are held, %d found", c.sampler.Held(0), len(found))
						}
					}
					write(o)
					later(c, key, o)
					if len(found) != 1 || found[0].Key != key {
						t.Errorf("found %v", found)
					}
					c.sampler.CheckAll()
					if len(found) != 1 || c.sampler.Held(0) != 0 {
						t.Errorf("found %v in the end; %d are held", found, c.sampler.Held(0))
					}
				})
			})
		}
	}
}

// TestOpenedObjectsAreSampledEvenly: of a scan of many objects a few are kept, from all over it. What was written to is
// found nevertheless, if it was among those meanwhile.
func TestOpenedObjectsAreSampledEvenly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects, scans = 2000, 50
		var found []Finding
		c := newCache(&found)
		halves := [2]int{}
		for range scans {
			for i := range objects {
				o := namedSettings(i)
				c.sampler.Opened(object.KeyOf(o), o)
			}
			if n := len(c.sampler.opened.samples); n != Kept {
				t.Fatalf("%d objects are kept, want %d", n, Kept)
			}
			for _, k := range c.sampler.opened.samples {
				if len(k.key.Name) == 4 { // from 1000 on
					halves[1]++
				} else {
					halves[0]++
				}
			}
			time.Sleep(openedFor)
			c.sampler.Visit()
		}
		if halves[0] < scans*Kept/3 || halves[1] < scans*Kept/3 {
			t.Errorf("%d samples of the first half of the scans, %d of the second", halves[0], halves[1])
		}
		for i := range objects { // a reader that writes to everything
			o := namedSettings(i)
			c.sampler.Opened(object.KeyOf(o), o)
			write(o)
		}
		time.Sleep(openedFor)
		if c.sampler.Visit(); len(found) != Kept {
			t.Errorf("%d writes were found, want %d", len(found), Kept)
		}
	})
}

// TestOpenedToBeChanged: an object that is opened because it changes is a sample until it has changed. However many
// there are, few are chosen, since each takes as long to look at as to open.
func TestOpenedToBeChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var found []Finding
		c := newCache(&found)
		const changes, each = 100_000, 50 * time.Microsecond
		chosen := 0
		for i := range changes {
			o := namedSettings(i)
			key := object.KeyOf(o)
			c.sampler.Opened(key, o)
			if slices.ContainsFunc(c.sampler.opened.samples, func(k openedSample) bool { return k.key == key }) {
				chosen++
			}
			c.sampler.Changing(key)
			time.Sleep(each)
			c.sampler.Visit()
		}
		// A choice from n has on average Kept × (1 + ln(n/Kept)) that are chosen at first.
		seconds := (changes * each).Seconds()
		if most := int(seconds * Kept * 12); chosen > most || chosen < int(seconds)*Kept {
			t.Errorf("%d of %d were chosen, want %d to %d", chosen, changes, int(seconds)*Kept, most)
		}
	})
}

// TestOpenedObjectsAreNotKept for longer than a moment.
func TestOpenedObjectsAreNotKept(t *testing.T) {
	var found []Finding
	c := newCache(&found)
	gone := make(chan struct{})
	func() {
		o := namedSettings(1)
		runtime.AddCleanup(o, func(gone chan struct{}) { close(gone) }, gone)
		c.sampler.Opened(object.KeyOf(o), o)
	}()
	c.sampler.opened.samples[0].at = time.Now().Add(-openedFor)
	c.sampler.Visit()
	for {
		select {
		case <-gone:
			return
		default:
			runtime.GC()
		}
	}
}

func BenchmarkOpened(b *testing.B) {
	var found []Finding
	s, o := newSampler(&found), samplePod()
	for b.Loop() {
		s.Opened(object.Key{Name: "x"}, o)
	}
}
