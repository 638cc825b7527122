package promises_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

// TestSlowChangeHasNotCaughtUp resumes a watch whose changes take long to reach the store: because
// of a transform, or because a handler with Block is busy with the objects of the file. That no
// other change arrives in the meantime does not mean that the server is silent.
func TestSlowChangeHasNotCaughtUp(t *testing.T) {
	for name, options := range map[string]tidings.HandlerOptions{"transform": {}, "handler": {Policy: tidings.Block, Buffer: 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
				server.Create(newPod("shop", "a"))
				fill(server, "shop")
				opts := tidings.Options{Files: tidings.Files{Dir: t.TempDir(), TransformVersion: "1"}}
				var slow time.Duration
				run := func() {
					p := &program{t: t}
					var err error
					if p.f, err = tidings.NewFactory(server.Config(), opts); err != nil {
						t.Fatal(err)
					}
					if p.inf, err = tidings.Informer[pod](p.f, tidings.Scope{}); err != nil {
						t.Fatal(err)
					}
					if name == "transform" {
						err = p.inf.SetTransform(func(o pod) (pod, error) { time.Sleep(slow); return o, nil })
						if err != nil {
							t.Fatal(err)
						}
					}
					mustAdd(t, p.inf, tidings.DeltaFunc[pod](func(object.Delta[pod]) { time.Sleep(slow) }), options)
					if err := p.f.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
					p.sync()
					if got, want := versionsOf(p.inf), server.Versions(podResource); differ(want, got) != "" {
						t.Errorf("synced, but %s", differ(want, got))
					}
					if n := lists(server); n != 1 {
						t.Errorf("%d lists, want that of the first run", n)
					}
					p.stop()
				}
				run()
				for i := range 5 {
					server.Create(newPod("shop", fmt.Sprint("new", i)))
				}
				server.Delete(newPod("shop", "a"))
				server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other"}})
				slow = 10 * time.Second
				server.Inject(tidingstest.Watch, tidingstest.Fault{Drip: time.Microsecond}) // so that changes come one by one
				run()
			})
		})
	}
}
