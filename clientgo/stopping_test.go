package clientgo

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
)

// TestHandlerAddedWhileStopping: between the end of Run's context and the moment when Run notices
// it, adding a handler fails with the same text as afterwards. client-go's users look for it.
func TestHandlerAddedWhileStopping(t *testing.T) {
	source := fcache.NewFakeControllerSource()
	defer source.Shutdown()
	inf := NewSharedIndexInformer(source, &corev1.Pod{}, 0, cache.Indexers{}).(*informer)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		inf.RunWithContext(ctx)
	}()
	if !cache.WaitFor(t.Context(), "", inf.HasSyncedChecker()) {
		t.Fatal("it did not sync")
	}
	if err := inf.native.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if inf.IsStopped() {
		t.Fatal("Run has noticed the stop")
	}
	_, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{})
	if err == nil || !strings.Contains(err.Error(), "was not added to shared informer because it has stopped already") {
		t.Errorf("got %v", err)
	}
	cancel()
	<-ended
}
