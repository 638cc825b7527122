package promises_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
)

// TestSkippedIsNotAbsent looks up objects that cannot be decoded, with and without an older state,
// and one that does not exist.
func TestSkippedIsNotAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		bad, once, none := object.Key{Namespace: "a", Name: "bad"}, object.Key{Namespace: "a", Name: "once"}, object.Key{Namespace: "a", Name: "none"}
		c.write(newPod("a", "bad"))
		c.write(newPod("a", "once"))
		c.spoil(bad, true)
		inf := start(t, c, tidings.InformerOptions[pod]{})
		synctest.Wait()
		c.spoil(once, true)
		c.write(newPod("a", "once"))
		synctest.Wait()

		lister := inf.Lister().Namespace("a")
		for name, lookup := range map[string]func(object.Key) (pod, bool, error){
			"informer": inf.Lookup,
			"lister":   func(k object.Key) (pod, bool, error) { return lister.Lookup(k.Name) },
			"labels": func(k object.Key) (pod, bool, error) {
				return lister.Labels(labels.SelectorFromSet(nil)).Lookup(k.Name)
			},
		} {
			_, ok, err := lookup(bad)
			skipped, typed := errors.AsType[*tidings.SkippedError](err)
			if ok || !typed || skipped.Key != bad || !errors.Is(err, tidings.ErrSkipped) || apierrors.IsNotFound(err) || !apierrors.IsInternalError(err) {
				t.Errorf("%s: bad: %t, %v", name, ok, err)
			}
			if p, ok, err := lookup(once); !ok || err != nil || p.Name != "once" {
				t.Errorf("%s: the older state: %t, %v", name, ok, err)
			}
			if _, ok, err := lookup(none); ok || err != nil {
				t.Errorf("%s: none: %t, %v", name, ok, err)
			}
		}
		if _, ok, err := lister.Labels(labels.Nothing()).Lookup("once"); ok || err != nil {
			t.Errorf("a lister for other labels: %t, %v", ok, err)
		}
		if got := lister.Skipped(); len(got) != 2 || got[0].Key != bad || got[1].Key != once {
			t.Errorf("skipped: %v", got)
		}
		if got := inf.Lister().Namespace("b").Skipped(); len(got) != 0 {
			t.Errorf("skipped in another namespace: %v", got)
		}
		c.remove(bad)
		synctest.Wait()
		if _, ok, err := inf.Lookup(bad); ok || err != nil {
			t.Errorf("after its deletion: %t, %v", ok, err)
		}
	})
}

// TestLookupNeverMissesWhatExists looks up objects while they become readable, by a watch or a
// relist, from the version on that the store is at when the server has them.
func TestLookupNeverMissesWhatExists(t *testing.T) {
	c := newCluster()
	c.write(newPod("a", "other"))
	inf := start(t, c, tidings.InformerOptions[pod]{})
	if err := inf.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		key := object.Key{Namespace: "a", Name: fmt.Sprint(i)}
		c.spoil(key, true)
		c.write(newPod("a", key.Name))
		if err := inf.WaitForVersion(t.Context(), "a", c.write(newPod("a", "other")).ResourceVersion); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := inf.Lookup(key); ok || !errors.Is(err, tidings.ErrSkipped) {
			t.Fatalf("%v before it is readable: %t, %v", key, ok, err)
		}
		c.spoil(key, false)
		c.write(newPod("a", key.Name))
		for {
			_, ok, err := inf.Lookup(key)
			if ok {
				break
			}
			if err == nil {
				t.Fatalf("%v was missed while it became readable", key)
			}
		}
	}
}
