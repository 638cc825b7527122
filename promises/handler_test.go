package promises_test

import (
	"slices"
	"testing"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
)

// TestFilterOfDeletions: for a deletion without an old state, the last known state decides whether
// the handler knew the object.
func TestFilterOfDeletions(t *testing.T) {
	red, blue := newPod("a", "red"), newPod("a", "blue")
	for _, tt := range []struct {
		before, last pod
		told         bool
	}{{nil, red, true}, {nil, blue, false}, {red, red, true}, {red, blue, true}, {blue, red, false}, {blue, blue, false}} {
		var got []object.DeltaType
		h := tidings.FilterHandler[pod](func(p pod) bool { return p.Name == "red" }, tidings.DeltaFunc[pod](func(d tidings.Delta[pod]) { got = append(got, d.Type) }))
		h.(tidings.DeltaFunc[pod])(tidings.Delta[pod]{Type: object.Deleted, Key: object.KeyOf(tt.last), Old: tt.before, Object: tt.last})
		if told := slices.Equal(got, []object.DeltaType{object.Deleted}); told != tt.told || !told && len(got) > 0 {
			t.Errorf("from %v to %s: told %v, want a deletion: %t", tt.before, tt.last.Name, got, tt.told)
		}
	}
}
