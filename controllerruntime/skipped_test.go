package tidingsruntime_test

import (
	"errors"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tidings/tidings"
	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/tidingstest"
)

// TestUndecodableIsNotAbsent: a reconciler that is told NotFound about an object that exists takes
// it for deleted. A list lacks the object, and Status names it.
func TestUndecodableIsNotAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, tidingstest.ServerOptions{}, "tidings")
		widget := func(name string, size any) *unstructured.Unstructured {
			u := asUnstructured(widgetKind)
			u.SetNamespace("a")
			u.SetName(name)
			u.Object["spec"] = map[string]any{"size": size}
			return u
		}
		w.Create(widget("good", int64(1)))
		w.Create(widget("bad", "big"))
		for _, namespaces := range []map[string]cache.Config{nil, {"a": {}, "b": {}}} {
			c := w.start(cache.Options{DefaultNamespaces: namespaces})
			get := func(name string) error {
				return c.Get(w.ctx(), client.ObjectKey{Namespace: "a", Name: name}, new(Widget))
			}
			if err := get("good"); err != nil {
				t.Errorf("the good one: %v", err)
			}
			err := get("bad")
			skipped, ok := errors.AsType[*tidings.SkippedError](err)
			if !ok || skipped.Key.Name != "bad" || !errors.Is(err, tidings.ErrSkipped) || !apierrors.IsInternalError(err) {
				t.Errorf("the bad one exists, but a reader is told %v", err)
			}
			if err := get("none"); !apierrors.IsNotFound(err) {
				t.Errorf("one that does not exist: %v", err)
			}
			want(w, "list", w.names(c, new(WidgetList)), []string{"a/good"})
			all, _ := tidingsruntime.Status(c)
			named := 0
			for _, st := range all {
				named += len(st.Skipped)
			}
			if named != 1 {
				t.Errorf("the status names %d skipped objects, want 1", named)
			}
		}

		c := w.start(cache.Options{})
		w.Update(widget("bad", int64(2)))
		w.settle()
		if err := c.Get(w.ctx(), client.ObjectKey{Namespace: "a", Name: "bad"}, new(Widget)); err != nil {
			t.Errorf("after it was mended: %v", err)
		}
		w.Delete(widget("bad", int64(2)))
		w.settle()
		if err := c.Get(w.ctx(), client.ObjectKey{Namespace: "a", Name: "bad"}, new(Widget)); !apierrors.IsNotFound(err) {
			t.Errorf("after it was deleted: %v", err)
		}
	})
}
