package promises_test

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
)

// TestUnreadObjectsFold without any option: the first list streams into folded form, handlers get every object, and
// what nobody reads stays folded. With KeepOpen nothing folds.
func TestUnreadObjectsFold(t *testing.T) {
	const pods = 2000
	for _, keep := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := newEncodedPods(t, pods, testseed.Seed(t))
			inf, err := tidings.NewInformer[pod](e, tidings.InformerOptions[pod]{
				Name: "pods", Options: tidings.Options{NoWatchList: true, KeepOpen: keep},
			})
			if err != nil {
				t.Fatal(err)
			}
			byNode := inf.AddIndex("node", func(p pod) []string { return []string{p.Spec.NodeName} })
			var added, updated atomic.Int64
			told := map[object.Key]string{}
			if _, err := inf.HandleDeltas("counts", func(d tidings.Delta[pod]) {
				switch d.Type {
				case object.Added:
					added.Add(1)
				case object.Updated:
					updated.Add(1)
					if told[d.Key] = d.Object.ResourceVersion; d.Old == nil || d.Object.Annotations["change"] == "" {
						t.Errorf("%s changed from %v to %v", d.Key, d.Old, d.Object)
					}
				}
			}); err != nil {
				t.Fatal(err)
			}
			if err := inf.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if added.Load() != pods || inf.Snapshot().Len() != pods {
				t.Errorf("a handler was told of %d pods, and the store has %d", added.Load(), inf.Snapshot().Len())
			}
			if st := inf.Status().Memory; (st.Folded > pods/4) == keep {
				t.Errorf("right after the list: %+v", st)
			}
			e.allow <- 500
			synctest.Wait()
			if updated.Load() == 0 {
				t.Error("a handler was told of no change")
			}
			for key, version := range e.latest { // several changes of one pod may arrive as one
				if n, err := strconv.Atoi(version); err != nil || n > encodedPodsVersion && told[key] != version {
					t.Errorf("a handler was told of %s at %q, want %s: %v", key, told[key], version, err)
				}
			}
			time.Sleep(30 * time.Minute)
			st := inf.Status().Memory
			if keep && (st.Open != pods || st.Rule != "off") || !keep && (st.Folded != pods || st.FoldAfter == 0) {
				t.Errorf("after half an hour: %+v", st)
			}
			n := 0
			for key, p := range inf.Snapshot().All() {
				n++
				again, ok := inf.Get(key)
				if !ok || again != p || object.KeyOf(p) != key || p.ResourceVersion != e.latest[key] {
					t.Fatalf("%s at %s; the same one: %t, want %s", key, p.ResourceVersion, again == p, e.latest[key])
				}
			}
			if n != pods {
				t.Errorf("%d pods are listed", n)
			}
			for p := range byNode.All("") {
				t.Errorf("%s has no node", p.Name)
			}
			if err := inf.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// unreadPods are the options of an informer to which nothing is said of memory.
var unreadPods = tidings.InformerOptions[pod]{Name: "pods", Options: tidings.Options{NoWatchList: true}}

// TestReadOftenStaysOpen: what is listed each second is opened once, and stays open until that ends.
func TestReadOftenStaysOpen(t *testing.T) {
	const pods = 2000
	synctest.Test(t, func(t *testing.T) {
		e := newEncodedPods(t, pods, testseed.Seed(t))
		inf, err := tidings.NewInformer[pod](e, unreadPods)
		if err != nil {
			t.Fatal(err)
		}
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 120 {
			time.Sleep(time.Second)
			for range inf.Snapshot().All() {
			}
		}
		st := inf.Status().Memory
		if st.Open != pods || !strings.Contains(st.Rule, "so often") || st.Opens > 60*pods {
			t.Errorf("%+v", st)
		}
		for range 60 {
			time.Sleep(time.Second)
			for range inf.Snapshot().All() {
			}
		}
		if now := inf.Status().Memory; now.Opens != st.Opens {
			t.Errorf("%d objects were opened although all are open", now.Opens-st.Opens)
		}
		time.Sleep(time.Hour)
		if st := inf.Status().Memory; st.Folded != pods {
			t.Errorf("after an hour without readers: %+v", st)
		}
		if err := inf.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestStopWhileFolding: a stop waits for what folds.
func TestStopWhileFolding(t *testing.T) {
	for wait := range 8 {
		synctest.Test(t, func(t *testing.T) {
			e := newEncodedPods(t, 1500, 1)
			inf, err := tidings.NewInformer[pod](e, unreadPods)
			if err != nil {
				t.Fatal(err)
			}
			if err := inf.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(wait) * 5 * time.Second)
			if err := inf.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}
