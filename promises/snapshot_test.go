package promises_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/tidings/tidings"
)

// TestSnapshotIndexes checks all index queries on one snapshot.
func TestSnapshotIndexes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		for name, labels := range map[string][2]string{"x": {"red", "big"}, "y": {"red", "small"}, "z": {"blue", "big"}} {
			p := newPod("a", name)
			p.Labels = map[string]string{"colour": labels[0], "size": labels[1]}
			c.write(p)
		}
		inf := start(t, c, tidings.InformerOptions[pod]{})
		colour := inf.AddIndex("colour", func(p pod) []string { return []string{p.Labels["colour"]} })
		size := inf.AddIndex("size", func(p pod) []string { return []string{p.Labels["size"]} })
		synctest.Wait()
		snap := inf.Snapshot()
		if colour.Name() != "colour" || snap.Count(colour, "red") != 2 || snap.Count(colour, "green") != 0 {
			t.Errorf("%d red ones in index %s, and %d green ones", snap.Count(colour, "red"), colour.Name(), snap.Count(colour, "green"))
		}
		if got := slices.Collect(snap.Values(colour)); !slices.Equal(got, []string{"blue", "red"}) {
			t.Errorf("colours %v", got)
		}
		red, big := tidings.Match[pod]{Index: colour, Value: "red"}, tidings.Match[pod]{Index: size, Value: "big"}
		for want, matches := range map[string][]tidings.Match[pod]{"a/x a/y a/z": nil, "a/x a/y": {red}, "a/x a/z": {big}, "a/x": {red, big}} {
			if got := names(slices.Collect(snap.Intersect(matches...))); got != want {
				t.Errorf("%d matches: %q, want %q", len(matches), got, want)
			}
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("an index without a function was taken")
				}
			}()
			inf.AddIndex("nothing", nil)
		}()
	})
}
