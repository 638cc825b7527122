package promises_test

import (
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/tidings/tidings"
)

// TestEditOpensNothing: objects that are overwritten or removed are not opened for that. Objects
// that are put in are folded.
func TestEditOpensNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf, err := tidings.NewInformer[pod](newEncodedPods(t, 3, 1), tidings.InformerOptions[pod]{Options: tidings.Options{MemoryBudget: 1, NoWatchList: true}})
		if err != nil {
			t.Fatal(err)
		}
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		runtime.GC() // or the objects are still open
		runtime.GC()
		before, keys := inf.Status().Memory, slices.Collect(inf.Snapshot().Keys())
		inf.Edit(keys[:2], []pod{newPod(keys[2].Namespace, keys[2].Name)})
		if m := inf.Status().Memory; before.Folded != 3 || m.Opens != before.Opens || inf.Snapshot().Len() != 1 || m.Folded != 1 || m.EncodedBytes > before.EncodedBytes/10 {
			t.Errorf("%+v, before that %+v", m, before)
		}
		if err := inf.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
