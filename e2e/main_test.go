// Package e2e tests the whole stack against a real kube-apiserver with etcd.
package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/tidingstest/controlplane"
)

// patience is how long a test waits for something that should happen at once. It is long, because the machine
// may be busy; nothing is measured by it.
const patience = 90 * time.Second

// quick makes informers find a control plane that is back soon after. A long outage would make them wait longer.
var quick = reflector.Backoff{Max: time.Second}

// shared is the control plane of all tests that do not kill theirs. It starts with the first of them.
var shared struct {
	once  sync.Once
	plane *controlplane.ControlPlane
	err   error
}

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // what informers log is in the way of what tests say
	code := m.Run()
	if programDir != "" {
		_ = os.RemoveAll(programDir)
	}
	if shared.plane != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := shared.plane.Close(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "the control plane did not end cleanly:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// plane returns the shared control plane. With -short it skips the test.
func plane(t testing.TB) *controlplane.ControlPlane {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane, which -short does without")
	}
	shared.once.Do(func() {
		shared.plane, shared.err = controlplane.Launch(context.Background(), controlplane.Options{UnsafeNoFsync: true})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.plane
}

// ownPlane returns a control plane that the test may kill.
func ownPlane(t testing.TB) *controlplane.ControlPlane {
	t.Helper()
	return controlplane.Start(t, controlplane.Options{})
}

func clientFor(t testing.TB, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// newNamespace makes a namespace for the test.
func newNamespace(t testing.TB, client kubernetes.Interface) string {
	t.Helper()
	ns, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

// startFactory returns a factory that is shut down with the test. The test starts it.
func startFactory(t testing.TB, config *rest.Config, opts tidings.Options) *tidings.Factory {
	t.Helper()
	f, err := tidings.NewFactory(config, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := f.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return f
}

// informer returns a started informer of the factory.
func informer[T tidings.Object](t testing.TB, f *tidings.Factory, scope tidings.Scope) *tidings.SharedInformer[T] {
	t.Helper()
	inf, err := tidings.Informer[T](f, scope)
	if err != nil {
		t.Fatal(err)
	}
	if err := inf.Start(context.Background()); err != nil { // Shutdown ends it
		t.Fatal(err)
	}
	return inf
}

// await returns when cond holds for the informer's newest snapshot. It looks again after each change.
func await[T tidings.Object](t testing.TB, inf *tidings.SharedInformer[T], what string, cond func(tidings.Snapshot[T]) bool) {
	t.Helper()
	changed := make(chan struct{}, 1)
	remove, err := inf.HandleDeltas("await", func(tidings.Delta[T]) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !cond(inf.Snapshot()) {
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("waited %v in vain for: %s; the informer: %+v", patience, what, inf.Status())
		}
	}
}
