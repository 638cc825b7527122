package source_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

// TestSourceKeepsNoObjects: the source must not keep objects in memory that are not referenced elsewhere.
func TestSourceKeepsNoObjects(t *testing.T) {
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		s.Create(pod("a", "x"))
		s.Create(pod("a", "y"))
		from := newHTTP[*corev1.Pod](t, s, source.Scope{Resource: pods})
		objects, result := mustList(t, from, source.ListOptions[*corev1.Pod]{})
		stream := mustWatch(t, from, source.WatchOptions[*corev1.Pod]{
			ResourceVersion: result.ResourceVersion, Timeout: time.Hour, Previous: holding(objects...),
		})
		s.Update(pod("a", "x"))
		s.Delete(pod("a", "y"))
		var gone []weak.Pointer[corev1.Pod]
		for _, e := range read(t, stream, 2) {
			gone = append(gone, weak.Make(e.Object))
		}
		runtime.GC()
		if slices.ContainsFunc(gone, func(p weak.Pointer[corev1.Pod]) bool { return p.Value() != nil }) {
			t.Error("an object that nobody else has is kept alive")
		}
		runtime.KeepAlive(from)
	})
}

// TestWhatIsSharedIsBounded has objects whose annotations occur twice, so that they are worth remembering.
func TestWhatIsSharedIsBounded(t *testing.T) {
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		const size, limit = 10_000, 200_000
		for i := range 100 {
			p := pod("a", fmt.Sprint("p", i))
			p.Annotations = map[string]string{"large": fmt.Sprint(i/2, strings.Repeat("x", size))}
			s.Create(p)
		}
		for _, max := range []int{limit, 0} {
			sources := map[string]interface{ SharedBytes() int64 }{}
			typed := newHTTP[*corev1.Pod](t, s, source.Scope{Resource: pods, MaxSharedBytes: max})
			untyped := newHTTP[*unstructured.Unstructured](t, s, source.Scope{Resource: pods, MaxSharedBytes: max})
			for range 2 {
				mustList(t, typed, source.ListOptions[*corev1.Pod]{})
				mustList(t, untyped, source.ListOptions[*unstructured.Unstructured]{})
			}
			sources["typed"], sources["unstructured"] = source.InternalsOf(typed), source.InternalsOf(untyped)
			for name, from := range sources {
				// A table may take as much again for remembering values that were seen once, and the last ones.
				if got := from.SharedBytes(); max > 0 && got > 2*limit || max == 0 && got < 40*size {
					t.Errorf("%s: %d bytes are remembered, with a bound of %d", name, got, max)
				}
			}
		}
	})
}

// TestStrayWrites writes to labels that cached objects share. Objects decoded later must not have them, and
// it must be reported.
func TestStrayWrites(t *testing.T) {
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		for i := range 100 {
			p := pod("a", fmt.Sprint("p", i))
			p.Labels = map[string]string{"app": "same"}
			s.Create(p)
		}
		typed := newHTTP[*corev1.Pod](t, s, source.Scope{Resource: pods})
		var fields []string
		source.InternalsOf(typed).OnStrayWrite(func(field string) { fields = append(fields, field) })
		objects, _ := mustList(t, typed, source.ListOptions[*corev1.Pod]{})
		objects[50].Labels["app"] = "spoilt"
		again, _ := mustList(t, typed, source.ListOptions[*corev1.Pod]{})
		for _, o := range again {
			if o.Labels["app"] != "same" {
				t.Fatalf("%s has the labels %v", o.Name, o.Labels)
			}
		}
		if !slices.Equal(fields, []string{"metadata.labels"}) || typed.Stats().Corrupted != 1 ||
			source.WireStats(typed).Corrupted != 1 {
			t.Errorf("reported were %q, %+v", fields, typed.Stats())
		}

		untyped := newHTTP[*unstructured.Unstructured](t, s, source.Scope{Resource: pods})
		dynamic, _ := mustList(t, untyped, source.ListOptions[*unstructured.Unstructured]{})
		dynamic[50].Object["metadata"].(map[string]any)["labels"].(map[string]any)["app"] = "spoilt"
		dynamicAgain, _ := mustList(t, untyped, source.ListOptions[*unstructured.Unstructured]{})
		for _, o := range dynamicAgain {
			if o.GetLabels()["app"] != "same" {
				t.Fatalf("%s has the labels %v", o.GetName(), o.GetLabels())
			}
		}
		if untyped.Stats().Corrupted == 0 {
			t.Error("nothing was reported")
		}
	})
}

// TestUnsharedPartsAreFreed: the rest of an object that shares nothing does not keep in memory what
// was removed from it.
func TestUnsharedPartsAreFreed(t *testing.T) {
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		const n, removed = 100, 30_000
		for i := range n {
			p := pod("a", fmt.Sprint("p", i))
			for k := range removed / 1000 {
				raw := fmt.Sprintf(`{"f:n":%q}`, fmt.Sprint(i, k, strings.Repeat("x", 980)))
				p.ManagedFields = append(p.ManagedFields, metav1.ManagedFieldsEntry{
					Manager: fmt.Sprint(i, k), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(raw),
				})
			}
			s.Create(p)
		}
		checkFreed(t, newHTTP[*corev1.Pod](t, s, source.Scope{Resource: pods}), n, removed)
		checkFreed(t, newHTTP[*unstructured.Unstructured](t, s, source.Scope{Resource: pods}), n, removed)
	})
}

func checkFreed[T object.Object](t *testing.T, from source.ListerWatcher[T], n, removed int) {
	t.Helper()
	var objects []T
	size := wiretest.HeapOf(func() {
		objects, _ = mustList(t, from, source.ListOptions[T]{NoSharing: true})
		for _, o := range objects {
			if len(o.GetManagedFields()) == 0 {
				t.Fatal("there is nothing to remove")
			}
			o.SetManagedFields(nil)
		}
	})
	if each := int(size) / n; len(objects) != n || each > removed/2 {
		t.Errorf("%T: %d objects take %d bytes each, %d were removed from each", *new(T), len(objects), each, removed)
	}
}
