package controller_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/client"
	"github.com/tidings/tidings/controller"
)

func TestFinalizers(t *testing.T) {
	shared := []string{"a", "b", "a"}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Finalizers: shared[:2]}}
	if controller.AddFinalizer(cm, "a") || !controller.AddFinalizer(cm, "c") || !slices.Equal(cm.Finalizers, []string{"a", "b", "c"}) || shared[2] != "a" {
		t.Error(cm.Finalizers, shared)
	}
	if !controller.RemoveFinalizer(cm, "a") || controller.RemoveFinalizer(cm, "a") || !slices.Equal(cm.Finalizers, []string{"b", "c"}) || shared[0] != "a" {
		t.Error(cm.Finalizers, shared)
	}
}

func TestSetOwner(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	owner, other := lateConfigMap("owner"), lateConfigMap("other")
	owner.UID, other.UID = "1", "2"
	owned := lateConfigMap("owned")
	owned.OwnerReferences = []metav1.OwnerReference{{UID: "1", Name: "owner"}, {UID: "3"}}
	for range 2 {
		must(0, controller.SetOwner(owner, kind, owned))
		if ref := metav1.GetControllerOf(owned); len(owned.OwnerReferences) != 2 || ref == nil || ref.UID != "1" || ref.Kind != "ConfigMap" {
			t.Errorf("%+v", owned.OwnerReferences)
		}
	}
	elsewhere := lateConfigMap("owned")
	elsewhere.Namespace = "elsewhere"
	for _, err := range []error{controller.SetOwner(other, kind, owned), controller.SetOwner(owner, kind, elsewhere)} {
		if err == nil {
			t.Error("no error")
		}
	}
}

// TestCreateOrUpdate writes with a client that is not tracked: the helper itself reports its writes.
func TestCreateOrUpdate(t *testing.T) {
	text := func(text string, fail error) func(ctx context.Context, w *mapWorld) {
		return func(ctx context.Context, w *mapWorld) {
			c := must(client.New[*corev1.ConfigMap](w.server.Config(), corev1.SchemeGroupVersion.WithResource("configmaps")))
			before := w.server.ResourceVersion()
			got, err := controller.CreateOrUpdate(ctx, w.cache, c, lateConfigMap("a"), func(cm *corev1.ConfigMap) error {
				cm.Data = map[string]string{"a": text}
				return fail
			})
			if !errors.Is(err, fail) || got.Data["a"] != text || fail != nil && w.server.ResourceVersion() != before {
				w.Errorf("got %+v, %v", got, err)
			}
		}
	}
	seen := func(text string) func(*mapWorld) bool {
		return func(w *mapWorld) bool {
			cm, ok := w.cache.Get(lateKey)
			return ok && cm.Data["a"] == text && showsTruth(w)
		}
	}
	existing := []tidings.Object{lateConfigMap("a")}
	runLate(t, map[string]lateTest[*corev1.ConfigMap]{
		"creates": {act: text("1", nil), seen: seen("1")},
		"updates": {objects: existing, act: text("2", nil), seen: seen("2")},
		"is done": {objects: existing, act: text("1", nil), seen: seen("1"), noWait: true},
		"fails":   {objects: existing, act: text("2", errors.New("invalid")), seen: seen("1"), noWait: true},
	})
}
