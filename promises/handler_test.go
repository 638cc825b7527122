package promises_test

import (
	"slices"
	"testing"

	"github.com/tidings/tidings"
)

// wrapping is a handler that passes every call on to another one.
type wrapping struct{ tidings.Handler[pod] }

// TestWrappedFilter: without deltas of its own, a filter asks about the state before a change as
// well, and for a deletion about the last known state.
func TestWrappedFilter(t *testing.T) {
	red, blue := newPod("a", "red"), newPod("a", "blue")
	update := func(old, new pod) func(tidings.Handler[pod]) {
		return func(h tidings.Handler[pod]) { h.OnUpdate(old, new) }
	}
	remove := func(last pod) func(tidings.Handler[pod]) {
		return func(h tidings.Handler[pod]) {
			h.OnDelete(tidings.Tombstone[pod]{Key: tidings.Key{Namespace: "a", Name: last.Name}, Object: last})
		}
	}
	for _, tt := range []struct {
		call func(tidings.Handler[pod])
		told []string
	}{
		{func(h tidings.Handler[pod]) { h.OnAdd(red, true) }, []string{"add a/red@ initial"}},
		{func(h tidings.Handler[pod]) { h.OnAdd(blue, true) }, nil},
		{update(nil, red), []string{"add a/red@"}},
		{update(blue, red), []string{"add a/red@"}},
		{update(red, red), []string{"update a/red →"}},
		{update(red, blue), []string{"delete a/blue@"}},
		{update(blue, blue), nil},
		{remove(red), []string{"delete a/red@"}},
		{remove(blue), nil},
	} {
		var r told
		tt.call(wrapping{tidings.FilterHandler[pod](func(p pod) bool { return p.Name == "red" }, &r)})
		if got := r.take(); !slices.Equal(got, tt.told) {
			t.Errorf("the handler was told %q, want %q", got, tt.told)
		}
	}
}
