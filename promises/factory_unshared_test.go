package promises_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// TestUnsharedInformer has an informer that its factory does not share, but otherwise treats like others.
func TestUnsharedInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, own := newCluster(), newCluster()
		for i := range 10 {
			shared.write(newPod("a", fmt.Sprint(i)))
			own.write(newPod("b", fmt.Sprint(i)))
		}
		var forAll, forOne []error
		f := tidings.NewSourceFactory(tidings.Options{MemoryBudget: 1, OnError: func(err error) { forAll = append(forAll, err); panic("oh") }})
		tidings.SetSource(f, func(tidings.Scope, string) (source.ListerWatcher[pod], error) { return shared, nil })
		first, err := tidings.Informer[pod](f, tidings.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		second, err := tidings.UnsharedInformer(f, tidings.Scope{}, tidings.UnsharedOptions[pod]{
			Name: "mine",
			OnError: func(err error) {
				forOne = append(forOne, err)
				own.fail(nil)
			},
			Source: func(tidings.Scope, string) (source.ListerWatcher[pod], error) { return own, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		third, err := tidings.UnsharedInformer(f, tidings.Scope{}, tidings.UnsharedOptions[pod]{})
		if err != nil {
			t.Fatal(err)
		}
		if again, err := tidings.Informer[pod](f, tidings.Scope{}); err != nil {
			t.Error(err)
		} else if err := again.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		own.fail(errors.New("broken"))
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := f.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for inf, namespace := range map[*tidings.SharedInformer[pod]]string{first: "a", second: "b", third: "a"} {
			if _, ok := inf.Get(tidings.Key{Namespace: namespace, Name: "3"}); !ok || inf.Snapshot().Len() != 10 {
				t.Errorf("%s holds %d pods, want 10 of namespace %s", inf.Status().Resource, inf.Snapshot().Len(), namespace)
			}
		}
		st := f.Status()
		if len(st) != 3 || st[0].Memory.Used != st[1].Memory.Used || st[1].Memory.Used != st[2].Memory.Used || st[1].Memory.Folded != 10 {
			t.Errorf("want three informers that share a budget: %+v", st)
		}
		if len(forAll) != 1 || len(forOne) != 1 || !strings.Contains(forOne[0].Error(), "mine") {
			t.Errorf("errors for all %v, for one %v", forAll, forOne)
		}
		if err := second.Stop(t.Context()); err != nil || len(f.Status()) != 2 {
			t.Errorf("stopped: %v, %d informers are left", err, len(f.Status()))
		}
		if err := f.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if _, err := tidings.UnsharedInformer(f, tidings.Scope{}, tidings.UnsharedOptions[pod]{}); !errors.Is(err, tidings.ErrStopped) {
			t.Errorf("after the shutdown: %v", err)
		}
	})
}

func TestUnsharedInformerRefuses(t *testing.T) {
	f := tidings.NewSourceFactory(tidings.Options{})
	if _, err := tidings.UnsharedInformer(f, tidings.Scope{}, tidings.UnsharedOptions[pod]{}); err == nil {
		t.Error("made an informer without a source")
	}
	if _, err := tidings.UnsharedInformer(f, tidings.Scope{Labels: "a in (b"}, tidings.UnsharedOptions[pod]{}); err == nil {
		t.Error("took a bad selector")
	}
	if _, err := tidings.NewFactoryForClient(nil, tidings.Options{}); err == nil {
		t.Error("made a factory of a nil client")
	}
}
