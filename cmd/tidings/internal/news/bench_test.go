package news

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tidings/tidings/internal/wire/wiretest"
)

// BenchmarkChange compares two states of a pod, of which one condition changed, and formats what changed for a
// terminal. The states share what did not change, as an informer's do.
func BenchmarkChange(b *testing.B) {
	before, after := conditionChange(b)
	opts := Options{Clean: NewClean()}
	opts.Clean.states[[2]string{before.GetNamespace(), before.GetName()}] = before
	text := Text{Limits: Limits{Changes: 30, Value: 200}, Colors: true, Width: func() int { return 120 }}
	b.ReportAllocs()
	for b.Loop() {
		e := NewModified(noon, pods, before, after, opts)
		if len(e.Changes) == 0 || len(text.Event(e)) == 0 {
			b.Fatal("nothing changed")
		}
		before, after = after, before
	}
}

// conditionChange returns two states of a pod.
func conditionChange(tb testing.TB) (before, after *unstructured.Unstructured) {
	tb.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wiretest.Pods(1, 1)[0])
	if err != nil {
		tb.Fatal(err)
	}
	before, after = &unstructured.Unstructured{Object: content}, &unstructured.Unstructured{Object: maps.Clone(content)}
	status := maps.Clone(content["status"].(map[string]any))
	conditions := slices.Clone(status["conditions"].([]any))
	condition := maps.Clone(conditions[0].(map[string]any))
	condition["message"], condition["lastTransitionTime"] = "the probe failed", "2026-01-01T00:00:05Z"
	conditions[0], status["conditions"], after.Object["status"] = condition, conditions, status

	metadata := maps.Clone(content["metadata"].(map[string]any))
	managers := slices.Clone(metadata["managedFields"].([]any))
	last := len(managers) - 1
	entry := maps.Clone(managers[last].(map[string]any))
	entry["time"] = "2026-01-01T00:00:05Z"
	managers[last], metadata["managedFields"], after.Object["metadata"] = entry, managers, metadata
	after.SetResourceVersion("2")
	return before, after
}
