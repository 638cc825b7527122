package replica

import (
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/watch"
)

// TestEventDroppedWhileEncoded has events be dropped from the cache, or all of it be cleared, while they are encoded.
// What the cache holds is counted right, and so it does not become smaller and smaller.
func TestEventDroppedWhileEncoded(t *testing.T) {
	for name, drop := range map[string]func(*EventCache, func(version uint64)){
		"full": func(_ *EventCache, add func(uint64)) {
			for version := range uint64(10) {
				add(2 + version)
			}
		},
		"cleared":     func(c *EventCache, _ func(uint64)) { c.clear() },
		"asked again": func(c *EventCache, add func(uint64)) { c.clear(); add(1) },
	} {
		synctest.Test(t, func(t *testing.T) {
			var c EventCache
			add := func(version uint64) {
				if _, err := c.Get(EventKey{Version: version}, func() ([]byte, error) {
					return make([]byte, maxCachedBytes/5), nil
				}); err != nil {
					t.Error(err)
				}
			}
			slow := make(chan struct{})
			go func() { // ends with slow
				data, err := c.Get(EventKey{Version: 1}, func() ([]byte, error) { <-slow; return []byte("late"), nil })
				if string(data) != "late" || err != nil {
					t.Error(data, err)
				}
			}()
			synctest.Wait()
			drop(&c, add)
			close(slow)
			synctest.Wait()
			sum := 0
			for _, e := range c.known {
				sum += len(e.data)
			}
			if c.bytes != sum || len(c.order) != len(c.known) || sum > maxCachedBytes {
				t.Errorf("%s: %d bytes are counted, of %d; %d events, %d in order",
					name, c.bytes, sum, len(c.known), len(c.order))
			}
		})
	}
}

// TestEventsOfTwoHistories: an encoded event of a history that no longer is does not stand for one of the new history.
func TestEventsOfTwoHistories(t *testing.T) {
	var events EventCache
	for epoch, want := range []string{"before", "after"} {
		key := EventKey{Epoch: epoch, Version: 5, Kind: watch.Modified}
		data, err := events.Get(key, func() ([]byte, error) { return []byte(want), nil })
		if err != nil || string(data) != want {
			t.Errorf("%q, %v, want %q", data, err, want)
		}
	}
}
