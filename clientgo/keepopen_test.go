package clientgo_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/tidingstest"
)

// bulky returns so much text that a hundred objects with as much are worth folding.
func bulky(random *rand.Rand) string {
	b := make([]byte, 30_000)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return hex.EncodeToString(b)
}

// TestKeepOpen: without any option, what nobody reads is folded after a while; a factory, or those of its informers
// that hold a resource, can be told to keep everything open. Listers return the same objects in each case.
func TestKeepOpen(t *testing.T) {
	const n = 100
	random := testseed.Rand(t)
	for name, c := range map[string]struct {
		options          tidings.Options
		maps, namespaces bool // whether they fold
	}{
		"nothing set":  {tidings.Options{}, true, true},
		"the factory":  {tidings.Options{KeepOpen: true}, false, false},
		"one resource": {tidings.Options{KeepOpenResources: []schema.GroupResource{{Resource: "configmaps"}}}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
				text := map[string]string{}
				for i := range n {
					name := fmt.Sprint("o", i)
					text[name] = bulky(random)
					texts := map[string]string{"text": text[name]}
					server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Data: texts})
					server.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: texts}})
				}
				f := clientgo.NewSharedInformerFactory(server.Config(), 0, clientgo.WithOptions(c.options))
				maps, namespaces := f.Core().V1().ConfigMaps(), f.Core().V1().Namespaces()
				maps.Informer()
				namespaces.Informer()
				ctx, cancel := context.WithCancel(t.Context())
				defer f.Shutdown()
				defer cancel()
				f.Start(ctx.Done())
				f.WaitForCacheSync(ctx.Done())
				time.Sleep(time.Hour)
				native, _ := clientgo.Native(f)
				for _, st := range native.Status() {
					folds := c.namespaces
					if st.Resource == "configmaps" {
						folds = c.maps
					}
					if m := st.Memory; folds && m.Folded != n || !folds && (m.Open != n || m.Rule != "off") {
						t.Errorf("%s: %+v; should fold: %t", st.Resource, m, folds)
					}
				}
				all, err := maps.Lister().List(labels.Everything())
				if err != nil || len(all) != n {
					t.Fatalf("%d objects, %v", len(all), err)
				}
				for _, m := range all {
					if m.Data["text"] != text[m.Name] {
						t.Errorf("%s has another text", m.Name)
					}
				}
			})
		})
	}
}
