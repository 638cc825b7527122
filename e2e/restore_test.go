package e2e

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/store"
	"github.com/tidings/tidings/tidingstest/controlplane"
	"github.com/tidings/tidings/tidingstest/recorder"
)

// restorePatience is how long an informer may take to find out that the server went back in time,
// once that is up again.
const restorePatience = 60 * time.Second

// lostWrites is how many writes a restore undoes. The restored server writes too, to its leases and
// the like: it must not have come as far as the old one when the informer asks for the first time,
// as it would not in a cluster of any size.
const lostWrites = 500

// TestRestoreFromBackup puts the control plane back to an earlier copy of its data, and expects the informer to follow.
func TestRestoreFromBackup(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	data := t.TempDir()
	cp := controlplane.Start(t, controlplane.Options{DataDir: data})
	client := clientFor(t, cp.Config())
	namespace := newNamespace(t, client)
	writeSettings(t, client, namespace, "kept", "changed")

	f := startFactory(t, cp.Config(), tidings.Options{Backoff: quick})
	settings := informer[*corev1.ConfigMap](t, f, tidings.Scope{Namespaces: []string{namespace}})
	var seen recorder.Recorder[*corev1.ConfigMap]
	seen.AllowRewrites()
	if _, err := settings.AddHandler(tidings.DeltaFunc[*corev1.ConfigMap](seen.Delta), tidings.HandlerOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForSync(t, f)

	backup := t.TempDir() + "/backup"
	must(t, cp.Stop(t.Context()))
	must(t, os.CopyFS(backup, os.DirFS(data)))
	must(t, cp.Restart(t.Context()))
	writeSettings(t, client, namespace, "lost", "changed")
	newest := writeSettings(t, client, namespace, slices.Repeat([]string{"changed"}, lostWrites)...)
	must(t, settings.WaitFor(t.Context(), newest))
	waited := make(chan error, 1)
	go func() {
		waited <- settings.WaitForVersion(context.Background(), tidings.All, newest.ResourceVersion+"0")
	}()

	must(t, cp.Stop(t.Context()))
	must(t, os.RemoveAll(data))
	must(t, os.CopyFS(data, os.DirFS(backup)))
	must(t, cp.Restart(t.Context()))

	ctx, cancel := context.WithTimeout(t.Context(), restorePatience)
	defer cancel()
	want := serverVersions(t, client, namespace)
	if err := seen.WaitVersions(ctx, want); err != nil {
		t.Errorf("the handler does not follow the restored server: %v; the informer: %v", err, settings.Fresh())
	}
	if err := seen.Err(); err != nil {
		t.Error(err)
	}
	if _, ok := settings.Get(tidings.Key{Namespace: namespace, Name: "lost"}); ok {
		t.Error("the store holds what the restored server does not have")
	}
	select {
	case err := <-waited:
		if !errors.Is(err, store.ErrRewritten) {
			t.Errorf("the wait for a version that no longer exists: %v", err)
		}
	case <-ctx.Done():
		t.Error("the wait for a version that no longer exists goes on")
	}
	after := writeSettings(t, client, namespace, "after")
	must(t, settings.WaitFor(ctx, after))
	if err := settings.Fresh(); err != nil {
		t.Error(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// writeSettings creates or changes config maps, and returns the last of them.
func writeSettings(t testing.TB, client kubernetes.Interface, namespace string, names ...string) *corev1.ConfigMap {
	t.Helper()
	var last *corev1.ConfigMap
	maps := client.CoreV1().ConfigMaps(namespace)
	for _, name := range names {
		found, err := maps.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			last, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		} else {
			found.Data = map[string]string{"changed": time.Now().String()}
			last, err = maps.Update(t.Context(), found, metav1.UpdateOptions{})
		}
		must(t, err)
	}
	return last
}

// serverVersions is what the server has.
func serverVersions(t testing.TB, client kubernetes.Interface, namespace string) map[tidings.Key]string {
	t.Helper()
	list, err := client.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	versions := map[tidings.Key]string{}
	for _, item := range list.Items {
		versions[tidings.Key{Namespace: namespace, Name: item.Name}] = item.ResourceVersion
	}
	return versions
}
