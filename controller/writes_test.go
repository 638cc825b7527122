package controller_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
)

// removeFinalizers returns a write that removes the finalizers of a ConfigMap, and reports it.
func removeFinalizers(write func(ctx context.Context, w *lateWorld[*corev1.ConfigMap], cm *corev1.ConfigMap) (*corev1.ConfigMap, error),
	report func(context.Context, controller.Cache[*corev1.ConfigMap], *corev1.ConfigMap),
) lateTest[*corev1.ConfigMap] {
	return lateTest[*corev1.ConfigMap]{
		objects: []tidings.Object{dying(lateConfigMap("a"), "example.com/x")},
		act: func(ctx context.Context, w *lateWorld[*corev1.ConfigMap]) {
			cm, _ := w.cache.Get(lateKey)
			written := must(write(ctx, w, cm.DeepCopy()))
			if written.ResourceVersion != cm.ResourceVersion {
				w.Errorf("the server answered with version %s instead of the one before, %s", written.ResourceVersion, cm.ResourceVersion)
			}
			report(ctx, w.cache, written)
		},
		seen: absent[*corev1.ConfigMap],
	}
}

func absent[T tidings.Object](w *lateWorld[T]) bool {
	_, ok := w.cache.Get(lateKey)
	return !ok
}

func isDying(w *lateWorld[*corev1.Pod]) bool {
	pod, ok := w.cache.Get(lateKey)
	return ok && pod.DeletionTimestamp != nil
}

func putFinalizers(ctx context.Context, w *lateWorld[*corev1.ConfigMap], cm *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	cm.Finalizers = nil
	return w.plain.CoreV1().ConfigMaps(cm.Namespace).Update(ctx, cm, metav1.UpdateOptions{})
}

func patchFinalizers(ctx context.Context, w *lateWorld[*corev1.ConfigMap], cm *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	return w.plain.CoreV1().ConfigMaps(cm.Namespace).Patch(ctx, cm.Name, types.MergePatchType, patch, metav1.PatchOptions{})
}

// TestLateCache reports writes whose answers do not show plainly what the cache will hold.
func TestLateCache(t *testing.T) {
	runLate(t, map[string]lateTest[*corev1.ConfigMap]{
		"last finalizer, put, wrote":     removeFinalizers(putFinalizers, controller.Wrote[*corev1.ConfigMap]),
		"last finalizer, put, deleted":   removeFinalizers(putFinalizers, controller.Deleted[*corev1.ConfigMap]),
		"last finalizer, patch, wrote":   removeFinalizers(patchFinalizers, controller.Wrote[*corev1.ConfigMap]),
		"last finalizer, patch, deleted": removeFinalizers(patchFinalizers, controller.Deleted[*corev1.ConfigMap]),
		"one of two finalizers": {
			objects: []tidings.Object{dying(lateConfigMap("a"), "example.com/x", "example.com/y")},
			act: func(ctx context.Context, w *lateWorld[*corev1.ConfigMap]) {
				cm, _ := w.cache.Get(lateKey)
				cm = cm.DeepCopy()
				cm.Finalizers = cm.Finalizers[:1]
				controller.Wrote(ctx, w.cache, must(w.plain.CoreV1().ConfigMaps(cm.Namespace).Update(ctx, cm, metav1.UpdateOptions{})))
			},
			seen: func(w *lateWorld[*corev1.ConfigMap]) bool {
				cm, ok := w.cache.Get(lateKey)
				return ok && len(cm.Finalizers) == 1
			},
		},
		"nothing changed": {
			objects: []tidings.Object{lateConfigMap("a")},
			act: func(ctx context.Context, w *lateWorld[*corev1.ConfigMap]) {
				cm, _ := w.cache.Get(lateKey)
				written := must(w.plain.CoreV1().ConfigMaps(cm.Namespace).Update(ctx, cm.DeepCopy(), metav1.UpdateOptions{}))
				if written.ResourceVersion != cm.ResourceVersion {
					w.Errorf("version %s became %s", cm.ResourceVersion, written.ResourceVersion)
				}
				controller.Wrote(ctx, w.cache, written)
			},
			seen:   func(w *lateWorld[*corev1.ConfigMap]) bool { return !absent(w) },
			noWait: true,
		},
		"created again": {
			objects: []tidings.Object{lateConfigMap("a")},
			act: func(ctx context.Context, w *lateWorld[*corev1.ConfigMap]) {
				cm, _ := w.cache.Get(lateKey)
				maps := w.plain.CoreV1().ConfigMaps(cm.Namespace)
				must(0, maps.Delete(ctx, cm.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &cm.UID}}))
				controller.Deleted(ctx, w.cache, cm)
				controller.Wrote(ctx, w.cache, must(maps.Create(ctx, lateConfigMap("a"), metav1.CreateOptions{})))
			},
			seen: func(w *lateWorld[*corev1.ConfigMap]) bool {
				cm, ok := w.cache.Get(lateKey)
				now := must(w.plain.CoreV1().ConfigMaps(lateKey.Namespace).Get(w.Context(), "a", metav1.GetOptions{}))
				return ok && cm.UID == now.UID
			},
		},
		// The cache still holds the object's predecessor when the object is deleted, which it has not seen.
		"deleted before it was seen": {
			objects: []tidings.Object{lateConfigMap("a")},
			act: func(ctx context.Context, w *lateWorld[*corev1.ConfigMap]) {
				w.server.Delete(lateConfigMap("a"))
				w.server.Create(lateConfigMap("a"))
				maps := w.plain.CoreV1().ConfigMaps(lateKey.Namespace)
				live := must(maps.Get(ctx, "a", metav1.GetOptions{}))
				must(0, maps.Delete(ctx, "a", metav1.DeleteOptions{}))
				controller.Deleted(ctx, w.cache, live)
			},
			seen: absent[*corev1.ConfigMap],
		},
	})
	runLate(t, map[string]lateTest[*corev1.Pod]{
		"graceful deletion": {
			objects: []tidings.Object{latePod("a")},
			act: func(ctx context.Context, w *lateWorld[*corev1.Pod]) {
				pod, _ := w.cache.Get(lateKey)
				must(0, w.plain.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}))
				controller.Deleted(ctx, w.cache, pod)
			},
			seen: isDying,
		},
		"status of a pod with a grace period": {
			objects: []tidings.Object{func() tidings.Object {
				pod, seconds := dying(latePod("a")), int64(30)
				pod.DeletionGracePeriodSeconds = &seconds
				return pod
			}()},
			act: func(ctx context.Context, w *lateWorld[*corev1.Pod]) {
				pod, _ := w.cache.Get(lateKey)
				pod = pod.DeepCopy()
				pod.Status.Reason = "Evicted"
				controller.Wrote(ctx, w.cache, must(w.plain.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})))
			},
			seen: func(w *lateWorld[*corev1.Pod]) bool {
				pod, ok := w.cache.Get(lateKey)
				return ok && pod.Status.Reason == "Evicted"
			},
		},
	})
	runLate(t, map[string]lateTest[*corev1.Namespace]{
		"status of a namespace that is being emptied": {
			objects: []tidings.Object{&corev1.Namespace{
				ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}},
			}},
			act: func(ctx context.Context, w *lateWorld[*corev1.Namespace]) {
				namespaces := w.plain.CoreV1().Namespaces()
				must(0, namespaces.Delete(ctx, "a", metav1.DeleteOptions{}))
				live := must(namespaces.Get(ctx, "a", metav1.GetOptions{}))
				live.Labels = map[string]string{"emptied": "soon"}
				controller.Wrote(ctx, w.cache, must(namespaces.Update(ctx, live, metav1.UpdateOptions{})))
			},
			seen: func(w *lateWorld[*corev1.Namespace]) bool {
				ns, ok := w.cache.Get(tidings.Key{Name: "a"})
				return ok && ns.Labels["emptied"] == "soon"
			},
		},
	})
}
