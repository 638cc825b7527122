package tidingsruntime_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tidings/tidings"
	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/tidingstest"
)

// inWorld runs a test with our cache and the options.
func inWorld(t *testing.T, options tidings.Options, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, tidingstest.ServerOptions{}, "tidings")
		w.newCache = tidingsruntime.WithOptions(options)
		test(w)
	})
}

// statuses returns the status of every informer, by form, resource and filters.
func (w *world) statuses(c cache.Cache) map[string]tidings.Status {
	w.Helper()
	all, ok := tidingsruntime.Status(c)
	if !ok {
		w.Fatal("it is not our cache")
	}
	byName := map[string]tidings.Status{}
	for _, st := range all {
		byName[strings.TrimSpace(st.Type+" "+st.Scope)] = st
	}
	return byName
}

// TestOneBudget has all informers of a cache, of every form and namespace, share a budget that is
// too small for any open object.
func TestOneBudget(t *testing.T) {
	inWorld(t, tidings.Options{MemoryBudget: 1, Logger: slog.New(slog.DiscardHandler)}, func(w *world) {
		for i := range 20 {
			w.Create(pod("a", fmt.Sprint(i)))
			w.Create(pod("b", fmt.Sprint(i)))
			w.Create(node(fmt.Sprint(i)))
		}
		c := w.make(cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject:         map[client.Object]cache.ByObject{&corev1.Pod{}: {Namespaces: map[string]cache.Config{"a": {}, "b": {}}}},
		})
		for _, obj := range []client.Object{&corev1.Pod{}, &corev1.Node{}, asUnstructured(nodeKind), asMetadata(nodeKind)} {
			if _, err := c.GetInformer(w.ctx(), obj); err != nil {
				w.Fatal(err)
			}
		}
		stop := w.run(c)
		w.settle()
		all := w.statuses(c)
		if len(all) != 5 {
			w.Fatalf("%d informers, want 5", len(all))
		}
		var sum int64
		for _, st := range all {
			sum += st.Memory.Bytes
		}
		for name, st := range all {
			if m := st.Memory; m.Budget != 1 || m.Folded != 20 || m.Open != 0 || m.Used < sum*9/10 || m.Used > sum*11/10 {
				w.Errorf("%s: %+v; all take %d together, and should be folded", name, m, sum)
			}
		}
		if err := c.RemoveInformer(w.ctx(), asUnstructured(nodeKind)); err != nil {
			w.Error(err)
		}
		w.settle()
		left := w.statuses(c)["*v1.Node"].Memory
		if gone := all["*unstructured.Unstructured"].Memory; gone.Bytes == 0 || left.Used > sum-gone.Bytes*9/10 {
			w.Errorf("%d of %d are used after an informer of %d has gone", left.Used, sum, gone.Bytes)
		}
		want(w, "pods", w.names(c, &corev1.PodList{}, client.InNamespace("b"))[:2], []string{"b/0", "b/1"})
		stop()
	})
}

// TestRemovedBeforeItRan removes informers of a cache that has not started.
func TestRemovedBeforeItRan(t *testing.T) {
	inWorld(t, tidings.Options{MemoryBudget: 1 << 20}, func(w *world) {
		c := w.make(cache.Options{})
		for range 3 {
			if _, err := c.GetInformer(w.ctx(), &corev1.Pod{}); err != nil {
				w.Fatal(err)
			}
			if n := len(w.statuses(c)); n != 1 {
				w.Errorf("%d informers, want 1", n)
			}
			if n := tidingsruntime.InFactory(c); n != 1 {
				w.Errorf("%d informers in the factory, want 1", n)
			}
			if err := c.RemoveInformer(w.ctx(), &corev1.Pod{}); err != nil {
				w.Fatal(err)
			}
			w.settle()
			if n := tidingsruntime.InFactory(c); n != 0 {
				w.Errorf("%d informers in the factory after the removal", n)
			}
		}
		w.run(c)
	})
}

// TestDirectory starts a second cache from the files of the first. Forms, selectors and namespaces have separate files.
func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	inWorld(t, tidings.Options{Files: tidings.Files{Dir: dir}}, func(w *world) {
		w.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}})
		for i := range 150 { // smaller collections are listed anyway
			w.Create(pod("a", fmt.Sprint(i), "app", "x"))
			w.Create(pod("b", fmt.Sprint(i), "app", fmt.Sprint(i%2)))
		}
		w.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"}, Data: map[string][]byte{"k": []byte("canary")}})
		secretKind := corev1.SchemeGroupVersion.WithKind("Secret")
		run := func(loaded int) {
			c := w.make(cache.Options{ByObject: map[client.Object]cache.ByObject{
				&corev1.Pod{}: {Namespaces: map[string]cache.Config{"a": {}, "b": {LabelSelector: selector("app=1")}}},
			}})
			for _, obj := range []client.Object{&corev1.Pod{}, asUnstructured(podKind), asMetadata(podKind), &corev1.Secret{}, asUnstructured(secretKind), asMetadata(secretKind)} {
				if _, err := c.GetInformer(w.ctx(), obj); err != nil {
					w.Fatal(err)
				}
			}
			stop := w.run(c)
			for form, as := range forms(podKind) {
				_, list := as()
				if n := len(w.names(c, list, client.InNamespace("a"))); n != 150 {
					w.Errorf("%s: %d pods of a, want 150", form, n)
				}
				if n := len(w.names(c, list, client.InNamespace("b"))); n != 75 {
					w.Errorf("%s: %d pods of b, want 75", form, n)
				}
			}
			for name, st := range w.statuses(c) {
				if file := st.Parts[0].File; strings.Contains(name, "namespace=a") && file.Loaded != loaded {
					w.Errorf("%s: %d objects came from the file, want %d: %+v", name, file.Loaded, loaded, file)
				}
			}
			stop()
		}
		run(0)
		run(150)
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 6 {
			w.Errorf("%d files %v, %v: want one for each form and namespace of pods, and none for Secrets", len(entries), entries, err)
		}
	})
}

// TestWatchErrorsGoToTheirInformer makes one of two informers of the same resource fail.
func TestWatchErrorsGoToTheirInformer(t *testing.T) {
	var log bytes.Buffer
	var errs []error
	options := tidings.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), OnError: func(err error) { errs = append(errs, err) }}
	inWorld(t, options, func(w *world) {
		w.fill()
		handled := map[string]int{}
		c := w.make(cache.Options{DefaultWatchErrorHandler: func(_ context.Context, r *toolscache.Reflector, _ error) { handled[r.Name()]++ }})
		for _, obj := range []client.Object{&corev1.Pod{}, asMetadata(podKind)} {
			if _, err := c.GetInformer(w.ctx(), obj); err != nil {
				w.Fatal(err)
			}
		}
		w.Inject(tidingstest.WatchList, tidingstest.Fault{Err: apierrors.NewForbidden(corev1.Resource("pods"), "", nil)})
		w.Inject(tidingstest.List, tidingstest.Fault{Err: apierrors.NewInternalError(errors.New("broken"))})
		w.run(c)
		w.settle()
		total := 0
		for _, n := range handled {
			total += n
		}
		if len(errs) != 1 || total != 1 {
			w.Errorf("one error came %d times to OnError and %v times to handlers", len(errs), handled)
		}
	})
}
