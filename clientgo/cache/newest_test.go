//go:build clientgo_newest

package cache_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	upstream "k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo/cache"
	"github.com/tidings/tidings/tidingstest"
)

// Names that client-go 0.37 added to its package cache work with this package's informers.
func TestTypedProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
		server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "web"}})
		client := kubernetes.NewForConfigOrDie(server.Config())
		lw := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", "shop", fields.Everything())
		pods := upstream.NewTypedSharedIndexInformer[*corev1.Pod](cache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, nil))
		var told []string
		handle, err := pods.AddTypedEventHandler(upstream.TypedResourceEventHandlerFuncs[*corev1.Pod]{
			AddFunc:    func(p *corev1.Pod) { told = append(told, "add "+p.Namespace+"/"+p.Name) },
			DeleteFunc: func(gone upstream.DeletedObject[*corev1.Pod]) { told = append(told, "delete "+gone.GetKey()) },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { pods.RunWithContext(ctx) })
		defer running.Wait()
		defer cancel()
		if !cache.WaitFor(ctx, "pods", pods.HasSyncedChecker(), handle.HasSyncedChecker()) {
			t.Fatal("not synced")
		}
		server.Delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
		synctest.Wait()
		if want := []string{"add shop/web", "delete shop/web"}; !slices.Equal(told, want) {
			t.Errorf("the handler was told %q, want %q", told, want)
		}
	})
}
