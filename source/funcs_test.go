package source_test

import (
	"context"
	"errors"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// scriptedStream delivers all its events at once, followed by an error.
type scriptedStream struct {
	events []source.Event[*corev1.Pod]
	err    error
}

func (s *scriptedStream) Next(buf []source.Event[*corev1.Pod]) ([]source.Event[*corev1.Pod], error) {
	return append(buf, s.events...), s.err
}
func (s *scriptedStream) Close() error { return nil }

// TestFuncsAreAskedForLess: functions need not know about NoSharing, and get Previous only if objects may be shared.
func TestFuncsAreAskedForLess(t *testing.T) {
	p := pod("a", "x")
	failed := errors.New("failed")
	asked := 0
	check := func(noSharing, previous bool) {
		t.Helper()
		if asked++; noSharing || previous != (asked%2 == 1) {
			t.Errorf("call %d has NoSharing %t, Previous %t", asked, noSharing, previous)
		}
	}
	from := source.Funcs[*corev1.Pod]{
		ListFunc: func(_ context.Context, opts source.ListOptions[*corev1.Pod], each func(*corev1.Pod) error) (source.ListResult, error) {
			check(opts.NoSharing, opts.Previous != nil)
			return source.ListResult{}, each(p)
		},
		WatchFunc: func(_ context.Context, opts source.WatchOptions[*corev1.Pod]) (source.Stream[*corev1.Pod], error) {
			check(opts.NoSharing, opts.Previous != nil)
			return &scriptedStream{[]source.Event[*corev1.Pod]{
				{Type: source.Added, Object: p}, {Type: source.Modified, Object: p}, {Type: source.Deleted, Object: p},
				{Type: source.Bookmark}, {Type: source.Invalid, Err: failed},
			}, io.EOF}, nil
		},
	}
	previous := func(object.Key) (*corev1.Pod, bool) { return nil, false }
	for _, noSharing := range []bool{false, true} {
		objects, _ := mustList(t, from, source.ListOptions[*corev1.Pod]{NoSharing: noSharing, Previous: previous})
		if (objects[0] != p) != noSharing {
			t.Errorf("NoSharing %t: the listed object is the same: %t", noSharing, objects[0] == p)
		}
	}
	for _, noSharing := range []bool{false, true} {
		stream := mustWatch(t, from, source.WatchOptions[*corev1.Pod]{NoSharing: noSharing, Previous: previous})
		before := source.Event[*corev1.Pod]{Type: source.Added, Object: p}
		events, err := stream.Next([]source.Event[*corev1.Pod]{before})
		if err != io.EOF || len(events) != 6 || events[0] != before || events[4].Type != source.Bookmark || events[5].Err != failed {
			t.Fatalf("events %+v, %v", events, err)
		}
		for _, e := range events[1:4] {
			if (e.Object != p) != noSharing || e.Object.Name != "x" {
				t.Errorf("NoSharing %t: the object of %v is the same: %t", noSharing, e.Type, e.Object == p)
			}
		}
	}
	from.WatchFunc = func(context.Context, source.WatchOptions[*corev1.Pod]) (source.Stream[*corev1.Pod], error) {
		return nil, failed
	}
	for _, noSharing := range []bool{false, true} {
		if stream, err := from.Watch(t.Context(), source.WatchOptions[*corev1.Pod]{NoSharing: noSharing}); err != failed || stream != nil {
			t.Errorf("a watch that fails: %v, %v", stream, err)
		}
	}
}
