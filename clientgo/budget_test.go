package clientgo_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/tidingstest"
)

// TestMemoryBudget folds the objects of client-go informers. The engine learns their type from the source.
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

// TestDirectory starts a second factory from the files of the first.
func TestDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}})
		const n = 150 // smaller collections are listed anyway
		for i := range n {
			server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint(i)}, Data: map[string]string{"n": fmt.Sprint(i)}})
		}
		dir := t.TempDir()
		for _, loaded := range []int{0, n} {
			f := clientgo.NewSharedInformerFactory(server.Config(), 0, clientgo.WithOptions(tidings.Options{Files: tidings.Files{Dir: dir}}))
			maps := f.Core().V1().ConfigMaps()
			maps.Informer()
			ctx, cancel := context.WithCancel(t.Context())
			f.Start(ctx.Done())
			f.WaitForCacheSync(ctx.Done())
			native, _ := clientgo.Native(f)
			if file := native.Status()[0].Parts[0].File; file.Loaded != loaded || file.Discarded != nil {
				t.Errorf("%d objects came from the file, want %d: %+v", file.Loaded, loaded, file)
			}
			if got, err := maps.Lister().ConfigMaps("a").Get("7"); err != nil || got.Data["n"] != "7" {
				t.Errorf("got %v, %v", got, err)
			}
			cancel()
			f.Shutdown()
		}
	})
}
