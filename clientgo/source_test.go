package clientgo_test

import (
	"errors"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

func TestInformerFromSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		s.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}})
		s.Inject(tidingstest.Any, tidingstest.Fault{Err: apierrors.NewInternalError(errors.New("first"))})
		client, err := source.NewClient(s.Config())
		if err != nil {
			t.Fatal(err)
		}
		src, err := source.NewHTTPLike(client, source.Scope{Resource: corev1.SchemeGroupVersion.WithResource("pods")}, &corev1.Pod{})
		if err != nil {
			t.Fatal(err)
		}
		reported := make(chan error, 1)
		inf, err := clientgo.NewSharedIndexInformerFromSource(src, tidings.Options{OnError: func(err error) { reported <- err }},
			cache.SharedIndexInformerOptions{ObjectDescription: "pods", Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}})
		if err != nil {
			t.Fatal(err)
		}
		go inf.RunWithContext(t.Context())
		<-inf.HasSyncedChecker().Done()
		if err := <-reported; !apierrors.IsInternalError(err) {
			t.Errorf("OnError got %v", err)
		}
		objects, err := inf.GetIndexer().ByIndex(cache.NamespaceIndex, "a")
		if err != nil || len(objects) != 1 || objects[0].(*corev1.Pod).Name != "x" {
			t.Errorf("in namespace a: %v, %v", objects, err)
		}
		native, ok := clientgo.NativeInformer(inf)
		if !ok || native.Status().Objects != 1 || native.Name() != "pods" {
			t.Errorf("native: %v, %v", native, ok)
		}
	})
}

func TestInformerFromSourceRefuses(t *testing.T) {
	if _, err := clientgo.NewSharedIndexInformerFromSource(nil, tidings.Options{}, cache.SharedIndexInformerOptions{}); err == nil {
		t.Error("made an informer of no source")
	}
	lw := cache.ListWatch{}
	upstream := cache.NewSharedIndexInformer(&lw, &corev1.Pod{}, 0, nil)
	if _, ok := clientgo.NativeInformer(upstream); ok {
		t.Error("found a native informer behind client-go's")
	}
}
