package clientgo_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/tidingstest"
)

// TestMemoryBudget folds the objects of client-go's informers, whose type the engine learns from the source.
func TestMemoryBudget(t *testing.T) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	const n = 300
	for i := range n {
		server.Create(&corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("c%03d", i)}, Data: map[string]string{"n": fmt.Sprint(i), "text": "the same for all of them"},
		})
	}
	f := clientgo.NewSharedInformerFactory(server.Config(), 0, clientgo.WithOptions(tidings.Options{MemoryBudget: 1}))
	maps := f.Core().V1().ConfigMaps()
	maps.Informer()
	ctx, cancel := context.WithCancel(t.Context())
	defer f.Shutdown()
	defer cancel()
	f.Start(ctx.Done())
	f.WaitForCacheSync(ctx.Done())
	native, _ := clientgo.Native(f)
	if m := native.Status()[0].Memory; m.Folded != n || m.Unfoldable != 0 {
		t.Errorf("memory: %+v; want all %d objects folded", m, n)
	}
	list, err := maps.Lister().List(labels.Everything())
	if err != nil || len(list) != n {
		t.Fatalf("%d objects, %v", len(list), err)
	}
	for i := range n {
		got, err := maps.Lister().ConfigMaps("a").Get(fmt.Sprintf("c%03d", i))
		if err != nil || got.Data["n"] != fmt.Sprint(i) {
			t.Fatalf("object %d is %v, %v", i, got, err)
		}
	}
}
