package promises_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// TestShare has users of an informer that its factory does not share with those who ask for it.
func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("a", "one"))
		f := tidings.NewSourceFactory(tidings.Options{})
		first, err := tidings.UnsharedInformer(f, tidings.Scope{}, tidings.UnsharedOptions[pod]{
			Source: func(tidings.Scope, string) (source.ListerWatcher[pod], error) { return c, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		second, err := first.Share()
		if err != nil {
			t.Fatal(err)
		}
		heard := map[string]*atomic.Int64{"first": {}, "second": {}} // each handler has its goroutine
		for name, inf := range map[string]*tidings.SharedInformer[pod]{"first": first, "second": second} {
			count := func(tidings.Key, object.DeltaType, bool) { heard[name].Add(1) }
			if _, err := inf.HandleKeys(name, count); err != nil {
				t.Fatal(err)
			}
			if err := inf.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if err := first.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.write(newPod("a", "two"))
		synctest.Wait()
		left, stayed := heard["first"].Load(), heard["second"].Load()
		if n := second.Snapshot().Len(); n != 2 || c.listed() != 1 || left != 1 || stayed != 2 {
			t.Errorf("after the first user has left: %d pods, %d lists, handlers heard %d and %d",
				n, c.listed(), left, stayed)
		}
		third, err := first.Share() // there still is a user
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(second.Stop(t.Context()), third.Stop(t.Context())); err != nil || len(f.Status()) != 0 {
			t.Errorf("stopped: %v; %d informers are left", err, len(f.Status()))
		}
		if _, err := third.Share(); !errors.Is(err, tidings.ErrStopped) {
			t.Errorf("shared after the last user has left: %v", err)
		}
		alone, err := tidings.NewInformer[pod](c, tidings.InformerOptions[pod]{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := alone.Share(); err == nil {
			t.Error("shared a standalone informer")
		}
	})
}
