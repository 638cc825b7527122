package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/reflector"
)

// TestOneInformerStopsAlone stops one informer of a factory, and one user of another, while the rest goes on.
func TestOneInformerStopsAlone(t *testing.T) {
	cp := plane(t)
	client := clientFor(t, cp.Config())
	namespace := newNamespace(t, client)
	f := startFactory(t, cp.Config(), tidings.Options{Backoff: quick})
	scope := tidings.Scope{Namespaces: []string{namespace}}
	secrets := informer[*corev1.Secret](t, f, scope)
	kept := informer[*corev1.ConfigMap](t, f, scope)
	shared := informer[*corev1.ConfigMap](t, f, scope)
	waitForSync(t, f)
	if n := len(f.Status()); n != 2 {
		t.Errorf("%d informers, want config maps to share one", n)
	}

	if err := errors.Join(secrets.Stop(t.Context()), shared.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := secrets.WaitForVersion(t.Context(), tidings.All, "1"); !errors.Is(err, tidings.ErrStopped) {
		t.Errorf("waiting for a stopped informer: %v", err)
	}
	if n := len(f.Status()); n != 1 {
		t.Errorf("%d informers are left, want 1", n)
	}
	for i := range 3 {
		settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("settings-", i)}}
		created, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), settings, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := kept.WaitFor(t.Context(), created); err != nil {
			t.Fatal(err)
		}
		if _, ok := kept.Lister().Namespace(namespace).Get(created.Name); !ok {
			t.Errorf("%s is not in the store, although it is current to its version", created.Name)
		}
	}

	// The same scope again is a new informer.
	again := informer[*corev1.Secret](t, f, scope)
	waitForSync(t, f)
	if err := again.Fresh(); err != nil {
		t.Error(err)
	}
}

// TestOneBadInformerAmongGood has one informer of a factory that cannot sync; the error names it, and the others work.
func TestOneBadInformerAmongGood(t *testing.T) {
	cp := plane(t)
	client := clientFor(t, cp.Config())
	trent := newUser("trent")
	grant(t, client, trent)
	f := startFactory(t, userConfig(t, cp, trent), tidings.Options{Backoff: quick})
	pods := informer[*corev1.Pod](t, f, tidings.Scope{})
	informer[*corev1.Secret](t, f, tidings.Scope{})
	err := f.WaitForSyncFailFast(t.Context())
	checkReason(t, err, reflector.Forbidden)
	if failure, ok := errors.AsType[*tidings.SyncError](err); !ok || failure.Resource != "secrets" {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := pods.WaitForSync(ctx); err != nil {
		t.Error(err)
	}
}
