package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidings/tidings/object"
)

// TestSortingAllocatesLittle: a list in another order than the store's costs two slices, whatever its length.
func TestSortingAllocatesLittle(t *testing.T) {
	shuffled := make([]object.Key, 1000)
	for i, at := range rand.New(rand.NewPCG(1, 2)).Perm(len(shuffled)) {
		shuffled[i] = object.Key{Namespace: "shop", Name: fmt.Sprint(at % 900)}
	}
	key := func(k *object.Key) object.Key { return *k }
	version := func(*object.Key) string { return "" }
	var got []object.Key
	if n := testing.AllocsPerRun(10, func() { got = sorted(shuffled, key, version, nil) }); n > 4 {
		t.Errorf("%.0f allocations", n)
	}
	if len(got) != 900 || !slices.IsSortedFunc(got, object.Key.Compare) {
		t.Errorf("%d sorted keys, want 900", len(got))
	}
}
