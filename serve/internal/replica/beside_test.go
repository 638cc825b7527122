package replica

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/object"
)

// TestListsBesideChanges reads lists of the last versions, and follows the changes, while objects are created, one at
// each version: the list at a version has as many.
func TestListsBesideChanges(t *testing.T) {
	const first, last = 1, 2000
	c := NewCollection(Limits{Bytes: 1 << 30, Age: time.Hour})
	c.journal.every = 7
	c.Replace(object.Items[*codec.Raw](nil), Format(first))
	var readers sync.WaitGroup
	for reader := range 3 {
		readers.Go(func() {
			for now := uint64(0); now < last; {
				view := c.View(nil, nil)
				now = view.Version()
				at := max(first, now-min(now, uint64(reader*20)))
				list, err := view.List(at)
				if err != nil {
					t.Errorf("no list at %d: %v", at, err)
					return
				}
				if n := list.Count("", ""); n != int(at-first) {
					t.Errorf("%d objects at %d", n, at)
				}
			}
		})
	}
	readers.Go(func() {
		view, seen := c.View(nil, nil), map[string]bool{}
		for position := uint64(first); position < last; {
			tail := view.After(position)
			for _, change := range tail.Changes {
				seen[change.After.GetName()] = true
			}
			if position = tail.Version; position < last {
				<-tail.Changed
			}
		}
		if len(seen) != last-first {
			t.Errorf("%d changes were seen", len(seen))
		}
	})
	for version := uint64(first + 1); version <= last; version++ {
		key := object.Key{Namespace: fmt.Sprint("n", version%5), Name: fmt.Sprint("x", version)}
		c.Add([]object.Delta[*codec.Raw]{{Type: object.Added, Key: key, Object: rawMap(t, key, version)}}, Format(version))
	}
	readers.Wait()
}
