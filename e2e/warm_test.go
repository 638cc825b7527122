package e2e

import (
	"context"
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/tidingstest/controlplane"
	"github.com/tidings/tidings/tidingstest/recorder"
)

// TestStartWithoutList starts programs that go on with what the ones before have saved: after
// changes that the server remembers, and after ones that it has forgotten, since it was restarted.
func TestStartWithoutList(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	cp := controlplane.Start(t, controlplane.Options{DataDir: t.TempDir()})
	client := clientFor(t, cp.Config())
	for name, start := range map[string]func(*testing.T, *rest.Config, string, string, map[tidings.Key]string) (tidings.Status, func()){
		"typed": startSaving[*corev1.ConfigMap], "unstructured": startSaving[*unstructured.Unstructured],
	} {
		t.Run(name, func(t *testing.T) {
			namespace, dir := newNamespace(t, client), t.TempDir()
			writeSettings(t, client, namespace, append(many(150), "changed", "deleted")...)
			st, stop := start(t, cp.Config(), dir, namespace, serverVersions(t, client, namespace))
			stop()
			if file := st.Parts[0].File; file.Discarded != nil || !file.AsOf.IsZero() {
				t.Errorf("the first start: %+v", file)
			}

			change(t, client, namespace)
			st, stop = start(t, cp.Config(), dir, namespace, serverVersions(t, client, namespace))
			stop()
			if part := st.Parts[0]; part.File.Loaded < 152 || part.Reflector.Lists != 0 || part.Reflector.Events == 0 {
				t.Errorf("the second start loaded %d objects, with %d lists and %d events: %v", part.File.Loaded, part.Reflector.Lists, part.Reflector.Events, part.File.Discarded)
			}

			change(t, client, namespace)
			must(t, cp.Stop(t.Context()))
			must(t, cp.Restart(t.Context()))
			change(t, client, namespace)
			awaitForgotten(t, client, namespace, st.Parts[0].ResourceVersion)
			st, stop = start(t, cp.Config(), dir, namespace, serverVersions(t, client, namespace))
			stop()
			if part := st.Parts[0]; part.File.Loaded < 152 || part.Reflector.Lists != 1 {
				t.Errorf("after the server has forgotten: loaded %d objects, with %d lists: %v", part.File.Loaded, part.Reflector.Lists, part.File.Discarded)
			}
		})
	}
}

// many returns the names of so many objects: a small collection is listed at a start, whatever was saved.
func many(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("kept-%d", i))
	}
	return names
}

// change changes, deletes and creates.
func change(t *testing.T, client kubernetes.Interface, namespace string) {
	t.Helper()
	must(t, client.CoreV1().ConfigMaps(namespace).Delete(t.Context(), "deleted", metav1.DeleteOptions{}))
	writeSettings(t, client, namespace, "changed", "new", "deleted")
}

// awaitForgotten waits until the server answers a watch from a version as one that it does not
// remember. After a restart that is when its cache is filled: before, it may have the database
// answer, which remembers longer.
func awaitForgotten(t *testing.T, client kubernetes.Interface, namespace, version string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for ctx.Err() == nil {
		w, err := client.CoreV1().ConfigMaps(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: version})
		if err == nil {
			first := <-w.ResultChan()
			w.Stop()
			err = apierrors.FromObject(first.Object)
		}
		if apierrors.IsResourceExpired(err) {
			return
		}
	}
	t.Fatal("the server still remembers", version)
}

// startSaving runs a program until it and its handler have these versions. It returns its status, and how to end it.
func startSaving[T tidings.Object](t *testing.T, config *rest.Config, dir, namespace string, want map[tidings.Key]string) (tidings.Status, func()) {
	t.Helper()
	f := startFactory(t, config, tidings.Options{Files: tidings.Files{Dir: dir}, Backoff: quick})
	inf, err := tidings.Informer[T](f, tidings.Scope{Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespaces: []string{namespace}})
	must(t, err)
	var seen recorder.Recorder[T]
	_, err = inf.AddHandler(tidings.DeltaFunc[T](seen.Delta), tidings.HandlerOptions{})
	must(t, err)
	must(t, f.Start(context.Background()))
	waitForSync(t, f)
	await(t, inf, "the versions of the server", func(snap tidings.Snapshot[T]) bool {
		got := map[tidings.Key]string{}
		for key, o := range snap.All() {
			got[key] = o.GetResourceVersion()
		}
		return maps.Equal(got, want)
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, seen.WaitVersions(ctx, want))
	must(t, seen.Err())
	return inf.Status(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		must(t, f.Shutdown(ctx))
	}
}
