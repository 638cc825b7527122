package promises_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/tidingstest"
)

// TestRestoredServerThatHasPassedTheOldVersion restores a backup while the informer cannot reach
// the server. By the time it can, the server has passed the informer's version. Only the objects
// show it: a newer list contains an object that is older than the store's.
func TestRestoredServerThatHasPassedTheOldVersion(t *testing.T) {
	for _, recreated := range []bool{false, true} {
		for _, budget := range []int64{0, 1} {
			t.Run(fmt.Sprintf("recreated=%t budget=%d", recreated, budget), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { passTheOldVersion(t, recreated, budget) })
			})
		}
	}
}

func passTheOldVersion(t *testing.T, recreated bool, budget int64) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	object := func(name, value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Data: map[string]string{"value": value}}
	}
	var diverged atomic.Int32
	factory, err := tidings.NewFactory(server.Config(), tidings.Options{MemoryBudget: budget, OnError: func(err error) {
		if e, ok := errors.AsType[*reflector.Error](err); ok && e.Reason == reflector.Diverged {
			diverged.Add(1)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	inf, err := tidings.Informer[*corev1.ConfigMap](factory, tidings.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	server.Create(object("quiet", "old"))
	server.Create(object("busy", "old"))
	backup := server.Snapshot()
	server.Update(object("quiet", "new"))
	if recreated {
		server.Delete(object("quiet", "new"))
		server.Create(object("quiet", "another"))
	}
	if err := factory.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := factory.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if err := factory.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Minute)
	server.Stop()
	server.Restore(backup)
	for range 100 {
		server.Update(object("busy", "new"))
	}
	server.Compact()
	server.Start()
	time.Sleep(2 * time.Minute)
	held, ok := inf.Get(tidings.Key{Namespace: "a", Name: "quiet"})
	if !ok || held.Data["value"] != "old" {
		t.Errorf("the store has %v", held)
	}
	if diverged.Load() != 1 {
		t.Errorf("%d reports", diverged.Load())
	}
}
