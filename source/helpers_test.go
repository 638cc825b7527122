package source_test

import (
	"context"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

var (
	pods    = corev1.SchemeGroupVersion.WithResource("pods")
	widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

// Widget is a custom resource with a Go type.
type Widget = wiretest.Widget

var pod, widget = wiretest.SmallPod, wiretest.SmallWidget

// bubble runs a test with a server in a synctest bubble.
func bubble(t *testing.T, options tidingstest.ServerOptions, test func(t *testing.T, s *tidingstest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := tidingstest.NewServer(t, options)
		s.AddResource(widgets, "Widget")
		test(t, s)
	})
}

func newHTTP[T object.Object](t testing.TB, s *tidingstest.Server, scope source.Scope) *source.HTTP[T] {
	t.Helper()
	client, err := source.NewClient(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	h, err := source.NewHTTP[T](client, scope)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func newHTTPLike(t testing.TB, s *tidingstest.Server, scope source.Scope, example object.Object) *source.HTTP[object.Object] {
	t.Helper()
	client, err := source.NewClient(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	h, err := source.NewHTTPLike(client, scope, example)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// list collects a whole page.
func list[T object.Object](ctx context.Context, from source.ListerWatcher[T], opts source.ListOptions[T]) ([]T, source.ListResult, error) {
	var all []T
	result, err := from.List(ctx, opts, func(o T) error {
		all = append(all, o)
		return nil
	})
	return all, result, err
}

func mustList[T object.Object](t *testing.T, from source.ListerWatcher[T], opts source.ListOptions[T]) ([]T, source.ListResult) {
	t.Helper()
	all, result, err := list(t.Context(), from, opts)
	if err != nil {
		t.Fatal(err)
	}
	return all, result
}

func mustWatch[T object.Object](t *testing.T, from source.ListerWatcher[T], opts source.WatchOptions[T]) source.Stream[T] {
	t.Helper()
	stream, err := from.Watch(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stream.Close() })
	return stream
}

// read reads at least n events. An error that comes with the last of them is left for the next call of Next.
func read[T object.Object](t *testing.T, stream source.Stream[T], n int) []source.Event[T] {
	t.Helper()
	var events []source.Event[T]
	for len(events) < n {
		var err error
		if events, err = stream.Next(events); err != nil && len(events) < n {
			t.Fatalf("after %d events: %v", len(events), err)
		}
	}
	return events
}

func types[T object.Object](events []source.Event[T]) (types []source.EventType) {
	for _, e := range events {
		types = append(types, e.Type)
	}
	return types
}

func names[T object.Object](objects []T) (names []string) {
	for _, o := range objects {
		names = append(names, o.GetName())
	}
	return names
}
