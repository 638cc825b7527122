package tidingsruntime_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tidings/tidings"
)

// TestKeepOpen: without any option, what nobody reads is folded after a while, whatever its form; a cache, or its
// informers of a resource, can be told to keep everything open.
func TestKeepOpen(t *testing.T) {
	const n = 100
	for name, c := range map[string]struct {
		options     tidings.Options
		pods, nodes bool // whether they fold
	}{
		"nothing set":  {tidings.Options{}, true, true},
		"the cache":    {tidings.Options{KeepOpen: true}, false, false},
		"one resource": {tidings.Options{KeepOpenResources: []schema.GroupResource{{Resource: "nodes"}}}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, c.options, func(w *world) {
				random := rand.New(rand.NewPCG(1, 2))
				text := make([]byte, 30_000)
				annotated := func(o client.Object) client.Object {
					for i := range text {
						text[i] = byte(random.Uint32())
					}
					o.SetAnnotations(map[string]string{"text": hex.EncodeToString(text)})
					return o
				}
				for i := range n {
					w.Create(annotated(pod("a", fmt.Sprint(i))))
					w.Create(annotated(node(fmt.Sprint(i))))
				}
				made := w.make(cache.Options{})
				forms := []client.Object{&corev1.Pod{}, &corev1.Node{}, asUnstructured(nodeKind), asMetadata(nodeKind)}
				for _, obj := range forms {
					if _, err := made.GetInformer(w.ctx(), obj); err != nil {
						w.Fatal(err)
					}
				}
				stop := w.run(made)
				time.Sleep(time.Hour)
				w.settle()
				all := w.statuses(made)
				if len(all) != 4 {
					w.Errorf("%d informers, want 4", len(all))
				}
				for name, st := range all {
					folds := c.nodes
					if name == "*v1.Pod" {
						folds = c.pods
					}
					if m := st.Memory; folds && m.Folded != n || !folds && (m.Open != n || m.Rule != "off") {
						w.Errorf("%s: %+v; should fold: %t", name, m, folds)
					}
				}
				if pods := w.names(made, &corev1.PodList{}); len(pods) != n {
					w.Errorf("%d pods", len(pods))
				}
				stop()
			})
		})
	}
}
