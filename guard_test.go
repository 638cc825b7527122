package tidings_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/tidings/tidings"
)

func TestGuardNamesTheHandlerThatWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var caught []tidings.Mutation
		c := newCluster()
		c.write(newPod("a", "x"))
		inf := start(t, c, tidings.InformerOptions[pod]{Options: tidings.Options{
			OnMutation: func(m tidings.Mutation) { caught = append(caught, m) },
		}})
		mustAdd(t, inf, tidings.HandlerFuncs[pod]{Add: func(p pod, _ bool) { p.Spec.NodeName = "mine" }},
			tidings.Subscription{Name: "vandal"})
		synctest.Wait()
		if len(caught) != 1 || caught[0].Handler != "vandal" || caught[0].Key.String() != "a/x" || caught[0].Resource != "pods" {
			t.Errorf("caught %+v, want the vandal at a/x", caught)
		}
		if n := inf.Status().Mutations; n != 1 {
			t.Errorf("%d mutations counted, want 1", n)
		}
	})
}

func TestGuardFindsWritersOutsideHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		found := 0
		c := newCluster()
		inf := start(t, c, tidings.InformerOptions[pod]{Options: tidings.Options{OnMutation: func(tidings.Mutation) { found++ }}})
		synctest.Wait()
		for i := range 20_000 {
			c.write(newPod("a", fmt.Sprint(i%100)))
			if i%50 == 0 {
				synctest.Wait()
				for _, cached := range inf.Snapshot().All() {
					cached.Spec.NodeName = "mine"
				}
			}
		}
		synctest.Wait()
		if found == 0 {
			t.Error("nobody noticed that every object was written to")
		}
	})
}
