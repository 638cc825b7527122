package promises_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/memory"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/tidingstest"
)

// TestMemoryOfChanges: right after all objects have changed, all of them are open, and take as much as if none had
// been folded. What they share with the states before does not keep more of those in memory.
func TestMemoryOfChanges(t *testing.T) {
	if memory.Eager {
		t.Skip("nothing stays open")
	}
	heap := map[bool]int64{}
	for _, keep := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			const objects = 1500
			random := rand.New(rand.NewPCG(testseed.Seed(t), 0))
			text := func() string { return strings.Repeat(fmt.Sprintf("%016x", random.Uint64()), 200) }
			server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
			all := make([]*corev1.ConfigMap, objects)
			for i := range all {
				all[i] = &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint(i)},
					Data:       map[string]string{"a": text(), "b": text()},
				}
				server.Create(all[i])
			}
			before := wiretest.LiveHeap()
			factory, err := tidings.NewFactory(server.Config(), tidings.Options{KeepOpen: keep})
			if err != nil {
				t.Fatal(err)
			}
			inf, err := tidings.Informer[*corev1.ConfigMap](factory, tidings.Scope{})
			if err != nil {
				t.Fatal(err)
			}
			changes := 0
			if _, err := inf.AddHandler(tidings.HandlerFuncs[*corev1.ConfigMap]{
				Update: func(_, _ *corev1.ConfigMap) { changes++ },
			}, tidings.HandlerOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := factory.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			if st := inf.Status().Memory; (st.Folded == objects) == keep {
				t.Errorf("before the changes: %+v", st)
			}
			for _, c := range all {
				c.Data["a"] = text()
				server.Update(c)
				synctest.Wait()
			}
			if st := inf.Status().Memory; st.Open != objects || changes != objects {
				t.Errorf("%d changes: %+v", changes, st)
			}
			heap[keep] = wiretest.LiveHeap() - before
			if err := factory.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
			factory.Client().CloseIdleConnections()
		})
	}
	t.Logf("%d bytes, and %d with everything kept open", heap[false], heap[true])
	if heap[false] > heap[true]+heap[true]/8 {
		t.Errorf("%d bytes, and %d with everything kept open", heap[false], heap[true])
	}
}
